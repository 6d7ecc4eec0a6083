/* A solver in C11 that owns MPI and its floating-point environment: trains on uneven blocks with traps on, and looks whether all is
 * afterwards as before. Prints what is not as expected; exits with 0.
 *
 * usage: mpirun -n 1 … 4 c_solver LEVEL|skips|ends      (MPI's thread level, or: the last rank leaves out a call, which ends the job) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fenv.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "adjoin.h"

static int rank = 0;

static void expect(int holds, const char *what) {
  if (!holds) printf("rank %d: expected %s; %s\n", rank, what, adjoin_last_error());
}

/* The solver's own BLAS, in which LibTorch's products then run. */
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc);
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc) {
  for (int j = 0; j < *n; ++j)
    for (int i = 0; i < *m; ++i) {
      double sum = 0, *to = c + i + (long)j * *ldc;
      for (int l = 0; l < *k; ++l)
        sum += a[strchr("nN", *ta) ? i + (long)l * *lda : l + (long)i * *lda] * b[strchr("nN", *tb) ? l + (long)j * *ldb : j + (long)l * *ldb];
      *to = *alpha * sum + (*beta == 0 ? 0 : *beta * *to);
    }
}

static void find_blas(const char *text, void *found) {
  if (strstr(text, "products run in the program's BLAS, ") != NULL)
    *(int *)found = 1;
  else
    fprintf(stderr, "message: %s\n", text);
}

static adjoin_array field(double *data, int64_t rows, int64_t columns) {
  adjoin_array array;
  memset(&array, 0, sizeof array);
  array.struct_size = sizeof array;
  array.data = data;
  array.type = ADJOIN_FLOAT64;
  array.dims = 2;
  array.sizes[0] = rows, array.sizes[1] = columns;
  array.strides[0] = columns, array.strides[1] = 1;
  array.channel_dim = array.batch_dim = -1;
  return array;
}

/* A network on blocks of uneven rows. */
static adjoin_network network_of(adjoin_world world, const int64_t *starts, const int64_t *sizes, int type, adjoin_blocks *blocks) {
  const int64_t shape[] = {7, 6};
  adjoin_network network = 0;
  const char *json =
      "{\"inputs\": 1, \"padding\": [\"replicate\", \"periodic\"], \"layers\": [{\"type\": \"conv\", \"out\": 8}, \"gelu\","
      " {\"type\": \"conv\", \"out\": 1}]}";
  expect(adjoin_blocks_create(world, ADJOIN_ROWS_FIRST, 2, shape, starts, sizes, blocks) == ADJOIN_OK, "blocks");
  expect(adjoin_network_create(*blocks, json, type, 3, &network) == ADJOIN_OK, "a network");
  expect(adjoin_network_optimizer(network, "{\"rate\": 0.01}") == ADJOIN_OK, "an optimizer");
  return network;
}

/* The loss of ten steps. `stays`: ranks then call different functions, and leave all as it is. */
static double train(adjoin_world world, int ranks, int type, int stays) {
  const int64_t starts[] = {rank == 0 ? 0 : 5, 0}, sizes[] = {ranks == 1 ? 7 : rank == 0 ? 5 : rank == 1 ? 2 : 0, 6};
  double u[42], target[42], value = 0, norm = 0;
  int32_t skipped = 0;
  adjoin_blocks blocks = 0;
  adjoin_pass pass = 0;
  for (int i = 0; i < 42; ++i) u[i] = (i * 37 % 11) / 5.0 - 1, target[i] = (i * 17 % 7) / 3.0 - 1;
  const adjoin_array in = field(u + 6 * starts[0], sizes[0], 6), out = field(target + 6 * starts[0], sizes[0], 6);
  adjoin_network network = network_of(world, starts, sizes, type, &blocks);
#ifndef __SANITIZE_ADDRESS__ /* which ends a program that asks for so much */
  adjoin_network huge = 0;
  const char *json = "{\"inputs\": 1, \"layers\": [{\"type\": \"conv\", \"out\": 1024, \"kernel\": 1048576}]}"; /* more than any machine has */
  expect(adjoin_network_create(blocks, json, type, 3, &huge) == ADJOIN_NO_MEMORY && huge == 0, "a lack of memory to be an error");
#endif
  for (int step = 0; step < 10; ++step) {
    expect(adjoin_forward(network, 1, &in, 0, NULL, 0, &pass) == ADJOIN_OK, "a pass");
    expect(adjoin_loss(pass, "mse", 0, 1, &out, NULL, &value) == ADJOIN_OK, "a loss");
    expect(adjoin_backward(&pass, 0, NULL, 0, NULL) == ADJOIN_OK, "gradients");
    expect(adjoin_step(network, -1, &norm, &skipped) == ADJOIN_OK && norm > 0 && !skipped, "a step");
  }
  const adjoin_array wrong = field(u, rank == 0 ? 1 : sizes[0], 6);
  expect(adjoin_infer(network, 1, &wrong, 0, NULL) == ADJOIN_INVALID && strstr(adjoin_last_error(), "rank 0: ") != NULL || ranks == 1,
         "an error on all ranks");
  if (stays && ranks > 1) {
    const int code = rank == 0 ? adjoin_step(network, -1, NULL, NULL) : adjoin_infer(network, 1, &in, 0, NULL);
    expect(code == ADJOIN_INVALID && strstr(adjoin_last_error(), "call different functions") != NULL, "an error of the order");
    expect(adjoin_infer(network, 1, &in, 0, NULL) == ADJOIN_OK, "the next call to work");
    return value;
  }
  expect(adjoin_network_destroy(&network) == ADJOIN_OK && adjoin_blocks_destroy(&blocks) == ADJOIN_OK, "all to be freed");
  return value;
}

/* What is wrong on the last rank alone is told to all, and two groups are no world. */
static void try_worlds(adjoin_world *world) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  adjoin_world_options options = {.struct_size = sizeof options, .threads = rank == ranks - 1 ? -1 : 0};
  expect(adjoin_world_of_mpi(MPI_COMM_WORLD, &options, world) == ADJOIN_INVALID && strstr(adjoin_last_error(), "threads: expected"),
         "options of one rank to be refused on all");
  if (ranks == 1) return;
  MPI_Comm half, both;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 0, &both);
  expect(adjoin_world_of_mpi(both, NULL, world) == ADJOIN_INVALID && strstr(adjoin_last_error(), "one group"),
         "an intercommunicator to be refused");
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

/* What is no communicator to make a world of is refused. */
static void try_communicators(int is_initialised, adjoin_world *world) {
  expect(adjoin_world_of_mpi_f(12345, NULL, world) == ADJOIN_INVALID, "a made-up communicator to be refused");
  if (is_initialised) expect(adjoin_world_of_mpi(MPI_COMM_NULL, NULL, world) == ADJOIN_INVALID, "no communicator to be refused");
  adjoin_world_options options = {.struct_size = 3};
  expect(adjoin_world_of_mpi_f(0, &options, world) == ADJOIN_INVALID && strstr(adjoin_last_error(), "struct_size: expected 32, got 3"),
         "options of another size to be refused");
}

/* Rank 2 alone, and the others in reverse, train each on their own. */
static void train_in_parts(adjoin_world world, int ranks) {
  const int all_rank = rank, color = rank == 2;
  int32_t own = -1, size = 0;
  adjoin_world part = 0;
  expect(adjoin_world_split(world, color, -rank, &part) == ADJOIN_OK && part != 0, "a part");
  expect(adjoin_world_rank(part, &own, &size) == ADJOIN_OK && size == (color ? 1 : ranks - (ranks > 2)), "the ranks of a part");
  expect(own == (color ? 0 : size - 1 - rank + (rank > 2)), "their order");
  rank = own;
  const double value = train(part, size, ADJOIN_FLOAT64, 0);
  expect(value > 0.317265290 && value < 0.317265291, "the loss of one rank");
  expect(adjoin_world_destroy(&part) == ADJOIN_OK, "the part to end");
  rank = all_rank;
}

/* All but the last rank wait in a call that the last leaves out: where they share memory, both then get the deadline's report; where they
 * do not, MPI takes no call back, and the job ends where the program asks for it. */
static void leave_out_a_call(int ranks, int ends) {
  adjoin_world world = 0;
  adjoin_blocks blocks = 0;
  adjoin_world_options options = {.struct_size = sizeof options, .deadline = 0.5, .ends_job = ends};
  const int64_t starts[] = {rank == 0 ? 0 : 5, 0}, sizes[] = {ranks == 1 ? 7 : rank == 0 ? 5 : rank == 1 ? 2 : 0, 6};
  double u[42] = {0};
  const adjoin_array in = field(u, sizes[0], 6);
  expect(adjoin_world_of_mpi(MPI_COMM_WORLD, &options, &world) == ADJOIN_OK, "a world");
  adjoin_network network = network_of(world, starts, sizes, ADJOIN_FLOAT64, &blocks);
  if (rank < ranks - 1) {
    expect(adjoin_infer(network, 1, &in, 0, NULL) == ADJOIN_COMMUNICATION, "a report");
    expect(strstr(adjoin_last_error(), "rank 0: ") != NULL, "the rank that waits in it");
  }
  if (ends) sleep(60);
  MPI_Barrier(MPI_COMM_WORLD); /* the program's own MPI goes on */
  expect(adjoin_infer(network, 1, &in, 0, NULL) == ADJOIN_COMMUNICATION, "the report from each later call");
  expect(adjoin_network_destroy(&network) == ADJOIN_OK && adjoin_blocks_destroy(&blocks) == ADJOIN_OK, "all to be freed");
  expect(adjoin_world_destroy(&world) == ADJOIN_OK, "the world to end");
  expect(adjoin_world_of_mpi(MPI_COMM_WORLD, NULL, &world) == ADJOIN_OK, "another world");
  expect(train(world, ranks, ADJOIN_FLOAT64, 0) > 0, "it to train");
  if (rank == 0) puts("told");
}

int main(int argc, char **argv) {
  int level = 0, ranks = 1, is_told = 0;
  adjoin_world world = 0;
  try_communicators(0, &world);
  MPI_Init_thread(&argc, &argv, argc > 1 ? atoi(argv[1]) : 0, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  fesetround(FE_UPWARD);
  adjoin_on_message(find_blas, &is_told);
  if (argc > 1 && argv[1][0] > '9') {
    leave_out_a_call(ranks, argv[1][0] == 'e');
    MPI_Finalize();
    return 0;
  }
  try_communicators(1, &world);
  try_worlds(&world);
  struct sigaction before[NSIG], after;
  for (int s = 1; s < NSIG; ++s) sigaction(s, NULL, &before[s]);

  adjoin_world_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  expect(adjoin_world_of_mpi(MPI_COMM_WORLD, &options, &world) == ADJOIN_OK, "a world");
  int32_t own = -1, size = 0;
  adjoin_world other = 0;
  expect(is_told, "word of the solver's own BLAS");
  expect(adjoin_world_rank(world, &own, &size) == ADJOIN_OK && own == rank && size == ranks, "the communicator's ranks");
  int (*threads)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_max_threads");
  void (*set_threads)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_num_threads");
  if (set_threads) set_threads(3);
  expect(adjoin_world_of_mpi(MPI_COMM_SELF, NULL, &other) == ADJOIN_INVALID, "a second world to be refused");
  train_in_parts(world, ranks);
  const double twice = train(world, ranks, ADJOIN_FLOAT64, 0), once = train(world, ranks, ADJOIN_FLOAT32, 0);
  expect(threads == NULL || threads() == 3, "as many threads as before");
  expect(adjoin_world_destroy(&world) == ADJOIN_OK && world == 0, "the world to end");

  MPI_Comm reversed; /* the ranks in another order */
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_rank(reversed, &rank);
  expect(adjoin_world_of_mpi(reversed, NULL, &world) == ADJOIN_OK, "another world");
  const double again = train(world, ranks, ADJOIN_FLOAT64, 1);
  expect(again - twice < 1e-12 && twice - again < 1e-12, "the same loss");
  expect(twice > 0 && twice < 1 && once > 0 && once < 1, "a small loss");
  expect(fegetexcept() == (FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW), "the traps to be on");
  expect(fegetround() == FE_UPWARD, "the rounding to be upward");
  expect(fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW) == 0, "no flags");
  for (int s = 1; s < NSIG; ++s)
    expect(sigaction(s, NULL, &after) != 0 || after.sa_handler == before[s].sa_handler, "the same handlers of signals");
  const clock_t start = clock();
  usleep(100000);
  expect(clock() - start < CLOCKS_PER_SEC / 20, "no core to be spent between calls");
  if (rank == 0) printf("loss %.10f %.3f\n", twice, once);
  MPI_Finalize(); /* while the world lives */
  return 0;
}

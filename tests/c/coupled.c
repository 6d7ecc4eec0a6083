/* A coupled program: an atmosphere on some ranks trains a network on what an ocean sends it, and a server writes what both send, all
 * while they use MPI as they like. Only the atmosphere calls adjoin. Prints the last loss, which is one for any number of its ranks.
 *
 * usage: mpirun -n 3 c_coupled   (or more: rank 0 serves, rank 1 is the ocean) */
#include <mpi.h>
#include <stdio.h>

#include "adjoin.h"

enum { ROWS = 6, COLUMNS = 5, STEPS = 10, FAR = 1 << 18 };

static void serve(void) {
  static double history[FAR];
  double loss = 0;
  for (int step = 0; step < STEPS; ++step) {
    MPI_Recv(history, FAR, MPI_DOUBLE, 1, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&loss, 1, MPI_DOUBLE, 2, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  printf("loss %.10f, history %.1f\n", loss, history[FAR - 1]);
}

/* Sends each rank of the atmosphere what lies below it. Nothing waits for its large messages to the server but MPI. */
static void be_ocean(int ranks) {
  static double field[ROWS * COLUMNS], history[STEPS][FAR];
  MPI_Request requests[STEPS];
  for (int step = 0; step < STEPS; ++step) {
    for (int i = 0; i < ROWS * COLUMNS; ++i) field[i] = (i * 37 + step) % 11 / 5.0 - 1;
    for (int rank = 2; rank < ranks; ++rank) MPI_Send(field, ROWS * COLUMNS, MPI_DOUBLE, rank, step, MPI_COMM_WORLD);
    history[step][FAR - 1] = step;
    MPI_Isend(history[step], FAR, MPI_DOUBLE, 0, step, MPI_COMM_WORLD, &requests[step]);
  }
  MPI_Waitall(STEPS, requests, MPI_STATUSES_IGNORE);
}

static adjoin_array part_of(double *field, const int64_t *starts, const int64_t *sizes) {
  adjoin_array array = {.struct_size = sizeof array, .data = field + starts[0] * COLUMNS, .type = ADJOIN_FLOAT64, .dims = 2, .channel_dim = -1, .batch_dim = -1};
  for (int d = 0; d < 2; ++d) array.sizes[d] = sizes[d];
  array.strides[0] = COLUMNS, array.strides[1] = 1;
  return array;
}

static int be_atmosphere(MPI_Comm component) {
  double field[ROWS * COLUMNS], target[ROWS * COLUMNS], loss = 0;
  int rank, ranks, code = 0;
  MPI_Comm_rank(component, &rank);
  MPI_Comm_size(component, &ranks);
  const int64_t shape[] = {ROWS, COLUMNS}, starts[] = {ROWS * rank / ranks, 0}, sizes[] = {ROWS * (rank + 1) / ranks - starts[0], COLUMNS};
  adjoin_world world = 0;
  adjoin_blocks blocks = 0;
  adjoin_network network = 0;
  adjoin_pass pass = 0;
  code |= adjoin_world_of_mpi(component, NULL, &world);
  code |= adjoin_blocks_create(world, ADJOIN_ROWS_FIRST, 2, shape, starts, sizes, &blocks);
  code |= adjoin_network_create(blocks, "{\"inputs\": 1, \"layers\": [{\"type\": \"conv\", \"out\": 4}, \"tanh\", {\"type\": \"conv\", \"out\": 1}]}",
                                ADJOIN_FLOAT64, 1, &network);
  code |= adjoin_network_optimizer(network, "{\"rate\": 0.01}");
  for (int step = 0; step < STEPS; ++step) {
    MPI_Recv(field, ROWS * COLUMNS, MPI_DOUBLE, 1, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS * COLUMNS; ++i) target[i] = field[i] / 2;
    const adjoin_array in = part_of(field, starts, sizes), out = part_of(target, starts, sizes);
    code |= adjoin_forward(network, 1, &in, 0, NULL, 0, &pass);
    code |= adjoin_loss(pass, "mse", 0, 1, &out, NULL, &loss);
    code |= adjoin_backward(&pass, 0, NULL, 0, NULL);
    code |= adjoin_step(network, -1, NULL, NULL);
    if (rank == 0) MPI_Send(&loss, 1, MPI_DOUBLE, 0, step, MPI_COMM_WORLD);
  }
  code |= adjoin_network_destroy(&network) | adjoin_blocks_destroy(&blocks) | adjoin_world_destroy(&world);
  if (code) printf("atmosphere %d: %s\n", rank, adjoin_last_error());
  return code;
}

int main(int argc, char **argv) {
  int level, rank, ranks, code = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm component;
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? rank : 2, 0, &component);
  if (rank == 0) serve();
  if (rank == 1) be_ocean(ranks);
  if (rank >= 2) code = be_atmosphere(component);
  MPI_Comm_free(&component);
  MPI_Finalize();
  return code;
}

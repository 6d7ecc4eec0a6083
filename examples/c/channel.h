/* The solver of examples/fortran/closure.f90 in C, with a wind that is 0 across the walls: carries a tracer through a channel on uneven
 * blocks over MPI's ranks, on coarse cells and on fine ones of half the size. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "adjoin.h"

enum { CELLS = 10 * 12 * 14, FINE = 18 * 22 * 26 };  /* at most, with ghost cells */
static const int n[3] = {8, 10, 12};                  /* z, y, x; z and y are cut */
static const double wind[3] = {0, 0.5, 1}, diffusion = 0.05, dt = 0.1, pi = 3.14159265358979323846;
static MPI_Comm cart;
static int rank, left[2], right[2], start[3], m[3];

static void begin(int *argc, char ***argv) {
  int level, ranks, parts[2] = {0}, coords[2];
  const int periods[2] = {0, 1};
  MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Dims_create(ranks, 2, parts);
  MPI_Cart_create(MPI_COMM_WORLD, 2, parts, periods, 1, &cart);
  MPI_Comm_rank(cart, &rank), MPI_Cart_coords(cart, rank, 2, coords);
  m[2] = n[2];
  for (int d = 0; d < 2; ++d) { /* the first block is larger */
    m[d] = n[d] / parts[d] > 1 ? n[d] / parts[d] - 1 : 1;
    start[d] = coords[d] == 0 ? 0 : n[d] - (parts[d] - coords[d]) * m[d];
    if (coords[d] == 0) m[d] = n[d] - (parts[d] - 1) * m[d];
    MPI_Cart_shift(cart, d, 1, &left[d], &right[d]);
  }
}

static void check(int code) {
  if (code == ADJOIN_OK) return;
  fprintf(stderr, "rank %d: %s\n", rank, adjoin_last_error()), MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A U-Net over the whole channel, whose outputs `scale` brings to those of the tendencies that coarse steps lack. */
static adjoin_network unet_of(adjoin_world *world, adjoin_blocks *blocks, const char *scale, double rate, int steps) {
  const int64_t shape[3] = {n[0], n[1], n[2]}, starts[3] = {start[0], start[1], start[2]}, sizes[3] = {m[0], m[1], m[2]};
  adjoin_network network;
  char unet[1000], optimizer[100];
  snprintf(unet, sizeof unet,
           "{\"inputs\": 1, \"padding\": [\"replicate\", \"periodic\", \"periodic\"], \"layers\": [{\"type\": \"conv\", \"out\": 8},"
           " {\"name\": \"fine\", \"type\": \"gelu\"}, \"avgpool\", {\"type\": \"conv\", \"out\": 8}, \"gelu\","
           " {\"name\": \"up\", \"type\": \"up\", \"out\": 8, \"like\": \"fine\"}, {\"type\": \"cat\", \"of\": [\"up\", \"fine\", \"input\"]},"
           " {\"type\": \"conv\", \"out\": 1}, {\"name\": \"scale\", \"type\": \"normalise\", \"inverse\": true%s}]}", scale);
  snprintf(optimizer, sizeof optimizer, "{\"rate\": %g, \"clip\": 1, \"schedule\": \"cosine\", \"steps\": %d}", rate, steps > 0 ? steps : 1);
  check(adjoin_world_of_mpi(cart, NULL, world));
  check(adjoin_blocks_create(*world, ADJOIN_ROWS_FIRST, 3, shape, starts, sizes, blocks));
  check(adjoin_network_create(*blocks, unet, ADJOIN_FLOAT64, 1, &network));
  check(adjoin_network_optimizer(network, optimizer));
  return network;
}

static double *at(double *v, const int *b, int i, int j, int k) { return v + ((int64_t)i * (b[1] + 2) + j) * (b[2] + 2) + k; }
#define FOR_CELLS(b) for (int i = 1; i <= b[0]; ++i) for (int j = 1; j <= b[1]; ++j) for (int k = 1; k <= b[2]; ++k)

/* A block without its ghost cells. */
static adjoin_array array_of(double *v) {
  return (adjoin_array){.struct_size = sizeof(adjoin_array), .data = at(v, m, 1, 1, 1), .type = ADJOIN_FLOAT64, .dims = 3, .channel_dim = -1,
                        .batch_dim = -1, .sizes = {m[0], m[1], m[2]}, .strides = {(m[1] + 2) * (m[2] + 2), m[2] + 2, 1}};
}

static void exchange_ghosts(double *v, const int *b) {
  for (int i = 1; i <= b[0]; ++i)
    for (int j = 1; j <= b[1]; ++j) *at(v, b, i, j, 0) = *at(v, b, i, j, b[2]), *at(v, b, i, j, b[2] + 1) = *at(v, b, i, j, 1);
  for (int j = 1; j <= b[1]; ++j) /* walls, through which nothing flows */
    for (int k = 1; k <= b[2]; ++k) *at(v, b, 0, j, k) = *at(v, b, 1, j, k), *at(v, b, b[0] + 1, j, k) = *at(v, b, b[0], j, k);
  for (int d = 0; d < 2; ++d)
    for (int up = 0; up < 2; ++up) {
      const int all[3] = {b[0] + 2, b[1] + 2, b[2] + 2}, layer[3] = {d == 0 ? 1 : all[0], d == 1 ? 1 : all[1], all[2]};
      int from[3] = {0}, to[3] = {0};
      from[d] = up ? b[d] : 1, to[d] = up ? 0 : b[d] + 1;
      MPI_Datatype out, in;
      MPI_Type_create_subarray(3, all, layer, from, MPI_ORDER_C, MPI_DOUBLE, &out);
      MPI_Type_create_subarray(3, all, layer, to, MPI_ORDER_C, MPI_DOUBLE, &in);
      MPI_Type_commit(&out), MPI_Type_commit(&in);
      MPI_Sendrecv(v, 1, out, up ? right[d] : left[d], 0, v, 1, in, up ? left[d] : right[d], 0, cart, MPI_STATUS_IGNORE);
      MPI_Type_free(&out), MPI_Type_free(&in);
    }
}

static void tendency(double *v, const int *b, double h, double direction, double *f) {
  exchange_ghosts(v, b);
  const int64_t strides[3] = {(b[1] + 2) * (b[2] + 2), b[2] + 2, 1};
  FOR_CELLS(b) {
    double *u = at(v, b, i, j, k), sum = 0;
    for (int d = 0; d < 3; ++d) {
      const double before = u[-strides[d]], after = u[strides[d]];
      sum += -direction * wind[d] * (after - before) / (2 * h) + diffusion * (before - 2 * *u + after) / (h * h);
    }
    *at(f, b, i, j, k) = sum;
  }
}

/* Heun's step. It is linear, and its adjoint is the step against the wind: `direction` -1. */
static void advance(double *v, const int *b, double h, double time, double direction) {
  static double f[FINE], g[FINE];
  tendency(v, b, h, direction, f);
  tendency(f, b, h, direction, g);
  FOR_CELLS(b) *at(v, b, i, j, k) += time * *at(f, b, i, j, k) + time * time / 2 * *at(g, b, i, j, k);
}

/* What follows on the fine cells, and its means over the coarse ones. */
static void advance_fine(double *fine, double *mean, int steps) {
  const int b[3] = {2 * m[0], 2 * m[1], 2 * m[2]};
  for (int step = 0; step < 2 * steps; ++step) advance(fine, b, 0.5, dt / 2, 1);
  FOR_CELLS(m) *at(mean, m, i, j, k) = 0;
  FOR_CELLS(b) *at(mean, m, (i + 1) / 2, (j + 1) / 2, (k + 1) / 2) += *at(fine, b, i, j, k) / 8;
}

/* Three waves, which all ranks draw alike by a number. */
static void begin_with_waves(double *fine, int number) {
  const int b[3] = {2 * m[0], 2 * m[1], 2 * m[2]};
  double r[12];
  srand(7919 * number + 1);
  for (double *w = r; w < r + 12; ++w) *w = rand() / (RAND_MAX + 1.0);
  FOR_CELLS(b) {
    const double z = (i + 2 * start[0] - 0.5) / (2 * n[0]), y = (j + 2 * start[1] - 0.5) / (2 * n[1]), x = (k - 0.5) / (2 * n[2]);
    double sum = 0;
    for (const double *w = r; w < r + 12; w += 4)
      sum += sin(2 * pi * (floor(3 * w[0]) * x + floor(3 * w[1]) * y + w[2])) * cos(pi * floor(3 * w[3]) * z);
    *at(fine, b, i, j, k) = sum;
  }
}

static double distance(double *a, double *b) {
  double sum = 0;
  FOR_CELLS(m) sum += pow(*at(a, m, i, j, k) - *at(b, m, i, j, k), 2);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, cart);
  return sqrt(sum);
}

/* Closes a coarse run of 100 steps from waves that the network has not seen. */
static void use(adjoin_network network) {
  static double fine[FINE], u[CELLS], plain[CELLS], y[CELLS], mean[CELLS];
  begin_with_waves(fine, 0), advance_fine(fine, u, 0);
  memcpy(plain, u, sizeof u);
  adjoin_array in = array_of(u), out = array_of(y);
  for (int step = 0; step < 100; ++step) {
    check(adjoin_infer(network, 1, &in, 1, &out));
    advance(u, m, 1, dt, 1);
    FOR_CELLS(m) *at(u, m, i, j, k) += dt * *at(y, m, i, j, k);
    advance(plain, m, 1, dt, 1);
    advance_fine(fine, mean, 1);
  }
  const double with = distance(u, mean), without = distance(plain, mean);
  if (rank == 0) printf("distance from the fine run after 100 steps, of that without the network: %.4f\n", with / without);
}

/* Trains a closure through time: the error of 8 coarse steps goes back through the passes and through the adjoint of the solver's own
 * step in between.
 *
 * usage: mpirun -n 4 c_unrolled UNROLLS */
#include "channel.h"

enum { STEPS = 8 };

/* The gradient of the mean square of what 8 steps differ from the fine ones; returns that. */
static double unroll(adjoin_network network, double *fine) {
  static double u[CELLS], y[CELLS], g[CELLS], h[CELLS], errors[STEPS][CELLS], mean[CELLS];
  adjoin_pass passes[STEPS];
  adjoin_array in = array_of(u), out = array_of(y), of_output = array_of(h), of_input = array_of(y);
  double loss = 0;
  advance_fine(fine, u, 0);
  for (int s = 0; s < STEPS; ++s) {
    check(adjoin_forward(network, 1, &in, 1, &out, 1, &passes[s]));
    advance(u, m, 1, dt, 1);
    FOR_CELLS(m) *at(u, m, i, j, k) += dt * *at(y, m, i, j, k);
    advance_fine(fine, mean, 1);
    FOR_CELLS(m) *at(errors[s], m, i, j, k) = (*at(u, m, i, j, k) - *at(mean, m, i, j, k)) / (n[0] * n[1] * n[2] * STEPS);
    loss += pow(distance(u, mean), 2) / (n[0] * n[1] * n[2] * STEPS);
  }
  FOR_CELLS(m) *at(g, m, i, j, k) = 0;
  for (int s = STEPS - 1; s >= 0; --s) {
    FOR_CELLS(m) *at(g, m, i, j, k) += 2 * *at(errors[s], m, i, j, k);
    FOR_CELLS(m) *at(h, m, i, j, k) = dt * *at(g, m, i, j, k);
    check(adjoin_backward(&passes[s], 1, &of_output, 1, &of_input));
    advance(g, m, 1, dt, -1);
    FOR_CELLS(m) *at(g, m, i, j, k) += *at(y, m, i, j, k);
  }
  return loss;
}

int main(int argc, char **argv) {
  const int unrolls = argc > 1 ? atoi(argv[1]) : 60;
  static double fine[FINE];
  adjoin_world world;
  adjoin_blocks blocks;
  begin(&argc, &argv);
  adjoin_network network = unet_of(&world, &blocks, ", \"mean\": 0, \"deviation\": 0.1", 0.02, unrolls);
  for (int number = 1; number <= unrolls; ++number) {
    begin_with_waves(fine, number);
    const double loss = unroll(network, fine);
    check(adjoin_step(network, -1, NULL, NULL));
    if (rank == 0) printf("unroll %d: loss %.10e\n", number, loss);
  }
  use(network);
  check(adjoin_network_destroy(&network));
  check(adjoin_blocks_destroy(&blocks));
  check(adjoin_world_destroy(&world));
  MPI_Finalize();
  return 0;
}

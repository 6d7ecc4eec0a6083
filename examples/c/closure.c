/* Trains a closure while fine runs go on, as examples/fortran/closure.f90 does, saves it, and then closes a coarse run with it.
 *
 * usage: mpirun -n 4 c_closure STEPS SAVED [EARLIER] */
#include "channel.h"

enum { SEEN = 10 }; /* so many steps of each fine run are seen */

int main(int argc, char **argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 400;
  static double fine[FINE], u[CELLS], mean[CELLS], lacking[CELLS];
  double loss = 0;
  adjoin_world world;
  adjoin_blocks blocks;
  adjoin_pass pass;
  begin(&argc, &argv);
  adjoin_network network = unet_of(&world, &blocks, "", 0.003, steps);
  if (argc > 3) check(adjoin_network_load(network, argv[3], 0));
  const adjoin_array in = array_of(u), target = array_of(lacking);

  for (int step = 1; step <= steps; ++step) {
    if (step % SEEN == 1) begin_with_waves(fine, step);
    advance_fine(fine, u, 0);
    check(adjoin_forward(network, 1, &in, 0, NULL, 0, &pass));
    advance(u, m, 1, dt, 1);
    advance_fine(fine, mean, 1);
    FOR_CELLS(m) *at(lacking, m, i, j, k) = (*at(mean, m, i, j, k) - *at(u, m, i, j, k)) / dt;
    if (step <= 5 * SEEN) check(adjoin_network_observe(network, "scale", 1, &target));
    check(adjoin_loss(pass, "mse", 0, 1, &target, NULL, &loss));
    check(adjoin_backward(&pass, 0, NULL, 0, NULL));
    check(adjoin_step(network, -1, NULL, NULL));
    if (rank == 0) printf("step %d: loss %.10e\n", step, loss);
  }
  if (steps > 0 && argc > 2) check(adjoin_network_save(network, argv[2]));
  use(network);
  check(adjoin_network_destroy(&network));
  check(adjoin_blocks_destroy(&blocks));
  check(adjoin_world_destroy(&world));
  MPI_Finalize();
  return 0;
}

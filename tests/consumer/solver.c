#include <adjoin.h>

#include <stdio.h>

int main(void) {
  adjoin_world world = 0;
  if (adjoin_world_alone(NULL, &world) != ADJOIN_OK) printf("%s\n", adjoin_last_error());
  return adjoin_world_destroy(&world);
}

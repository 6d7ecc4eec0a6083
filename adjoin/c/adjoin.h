/* adjoin for programs in C, C++ and Fortran that hold their fields as blocks over ranks: trains and applies one network over the whole
 * domain, while nothing moves but halos and gradients. docs/in-situ.md leads through it.
 *
 * Every function returns ADJOIN_OK or what went wrong; adjoin_last_error then has the text. No function ends the program, prints, or
 * lets an exception out. "Called by all" means by all ranks of the world, in the same order; what is wrong on one rank then is returned
 * on all, with that rank, and the world goes on, unless the text says that the world has ended (ADJOIN_COMMUNICATION).
 * All calls on a world, and on what is made on it, come from the thread that made the world.
 *
 * During a call MPI is used as the program's other calls would use it, at any thread level. The floating-point environment (traps,
 * rounding), the number of OpenMP's threads and LibTorch's modes are after each call as before. Memory of the caller is used during the
 * call only. A handle is a number; a null handle, a freed one, a made-up one and one of another kind are found and refused. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ADJOIN_OK = 0,
  ADJOIN_INVALID = 1,       /* the caller's mistake; nothing has happened */
  ADJOIN_COMMUNICATION = 2, /* the world has ended: each later call on it returns this, with the same text, but for those that free */
  ADJOIN_IO = 3,            /* a disk or file */
  ADJOIN_NO_MEMORY = 4,
  ADJOIN_INTERNAL = 5,
  ADJOIN_UNSUPPORTED = 6
};
enum { ADJOIN_FLOAT32 = 0, ADJOIN_FLOAT64 = 1 };
/* In which order arrays and lists name the dims of space: the last or the first is contiguous in memory, as in C or in Fortran. */
enum { ADJOIN_ROWS_FIRST = 0, ADJOIN_COLUMNS_FIRST = 1 };
enum { ADJOIN_MOST_DIMS = 8 };

typedef uint64_t adjoin_handle; /* 0: none */
typedef adjoin_handle adjoin_world, adjoin_blocks, adjoin_network, adjoin_pass, adjoin_samples;

/* A rank's part of a field, in memory of the caller: the own cells, ghost cells left out by sizes and strides. */
typedef struct adjoin_array {
  uint64_t struct_size; /* sizeof(adjoin_array) */
  void *data;           /* the first own element; may be null where a size is 0 */
  int32_t type, dims;
  int64_t sizes[ADJOIN_MOST_DIMS], strides[ADJOIN_MOST_DIMS]; /* in elements; strides are not negative */
  int32_t channel_dim; /* which dim counts channels, from 0; -1: the array is one channel */
  int32_t batch_dim;   /* which dim counts samples; -1: it is one sample */
  int32_t device;      /* 0: the CPU; others are ADJOIN_UNSUPPORTED until there are some */
  int32_t reserved;    /* 0 */
} adjoin_array;

typedef struct adjoin_world_options {
  uint64_t struct_size; /* sizeof(adjoin_world_options) */
  double deadline;      /* seconds after which a call that waits ends the world; 0: none */
  int32_t threads;      /* of this rank's kernels; 0: 1 */
  int32_t checked;      /* compares the arguments of all communication, also between hosts */
  int32_t host_memory;  /* whether ranks of a host share memory: 0 where they can, 1 always (else an error), 2 never */
  int32_t ends_job;     /* ends the job, by MPI_Abort, where ranks that share no memory wait for each other forever or beyond the deadline */
} adjoin_world_options;

/* -- errors and messages ------------------------------------------------------------------------------------------------------- */

uint32_t adjoin_version(void); /* major << 16 | minor << 8 | patch */
/* The text of this thread's latest error, one line; valid until the next call. */
const char *adjoin_last_error(void);
/* The rank on which the error arose; -1 where it is not one rank's. */
int adjoin_last_error_rank(void);
/* Gives all messages of adjoin and LibTorch, such as warnings, to `tell`, which may be called on any thread; null: they are dropped. */
int adjoin_on_message(void (*tell)(const char *text, void *user), void *user);

/* -- worlds -------------------------------------------------------------------------------------------------------------------- */

/* A world of the ranks of an MPI communicator, given as Fortran's integer. The program initialises MPI, and finalises it when it likes.
 * Called by all of the communicator. One such world a process at a time. Options may be null. Costs milliseconds. */
int adjoin_world_of_mpi_f(int32_t comm, const adjoin_world_options *options, adjoin_world *world);
#ifdef MPI_VERSION /* mpi.h was included before */
static inline int adjoin_world_of_mpi(MPI_Comm comm, const adjoin_world_options *options, adjoin_world *world) {
  return adjoin_world_of_mpi_f((int32_t)MPI_Comm_c2f(comm), options, world);
}
#endif
/* A world of this thread alone. */
int adjoin_world_alone(const adjoin_world_options *options, adjoin_world *world);
/* Calls `rank(world, user)` on so many threads, each of which is a rank, and returns when all have returned. A result other than 0 ends
 * the others' calls. The worlds are freed here; what a rank has made on its world it frees before it returns. */
int adjoin_run_threads(int32_t ranks, int (*rank)(adjoin_world world, void *user), void *user);
/* A part of a world, in which ranks with one color are together, ordered by `key` and then by their rank; a color below 0: in none, which
 * gives a handle of 0. It is a world itself, with its own blocks and networks; counts are the whole world's. Called by all. */
int adjoin_world_split(adjoin_world world, int32_t color, int32_t key, adjoin_world *part);
/* The caller's rank and the number of ranks; each may be null. */
int adjoin_world_rank(adjoin_world world, int32_t *rank, int32_t *size);
/* What this rank has sent since the world was made, or since the last call: messages and collectives, and their bytes. */
int adjoin_world_counts(adjoin_world world, int64_t *messages, int64_t *bytes, int64_t *collectives, int64_t *collective_bytes);
/* Called by all, when all that was made on it is freed. Sets the handle to 0, as all functions of this kind; a handle of 0 is fine. */
int adjoin_world_destroy(adjoin_world *world);

/* -- blocks -------------------------------------------------------------------------------------------------------------------- */

/* Which cells of a domain of `dims` (1 to 3) dims each rank has: the start, from 0, and the sizes of its block. The blocks form a
 * Cartesian arrangement, uneven or not, with the ranks in any order; a rank without cells gives a size of 0. Called by all. */
int adjoin_blocks_create(adjoin_world world, int32_t order, int32_t dims, const int64_t *shape, const int64_t *starts,
                         const int64_t *sizes, adjoin_blocks *blocks);
/* The same for one member of an ensemble, counted from 0, whose ranks all are in one world. All members have the same blocks. They train
 * one network: what a pass of each member has is a part of one batch, and the loss is the mean over all. Called by all. */
int adjoin_blocks_of_member(adjoin_world world, int32_t order, int32_t dims, const int64_t *shape, const int64_t *starts,
                            const int64_t *sizes, int32_t member, adjoin_blocks *blocks);
/* This rank's number of points of an unstructured mesh, or of columns, whose levels then are channels. Arrays have one dim of space.
 * Networks have layers of single points: "linear", functions, norms over all points, "add", "cat". Called by all. */
int adjoin_blocks_of_points(adjoin_world world, int64_t points, adjoin_blocks *blocks);
int adjoin_blocks_destroy(adjoin_blocks *blocks); /* called by all */

/* -- networks ------------------------------------------------------------------------------------------------------------------ */

/* A network that is described in JSON (docs/in-situ.md), cut over space as the blocks are, with numbers of `type`. Its weights are drawn
 * by `seed`, the same for any blocks. Called by all, with equal arguments. */
int adjoin_network_create(adjoin_blocks blocks, const char *json, int32_t type, uint64_t seed, adjoin_network *network);
int adjoin_network_destroy(adjoin_network *network); /* called by all */
/* What the last layer makes: its channels, and the sizes of this rank's part in the solver's order. Each may be null. */
int adjoin_network_output(adjoin_network network, int64_t *channels, int64_t *sizes);
/* The number of weights and running statistics. */
int adjoin_network_parameters(adjoin_network network, int32_t *count);
/* One of them: its name, cut to `capacity` bytes with the end, its sizes as in PyTorch (rows first), and whether it is trained. */
int adjoin_network_parameter(adjoin_network network, int32_t index, char *name, int32_t capacity, int32_t *dims,
                             int64_t sizes[ADJOIN_MOST_DIMS], int32_t *is_trained);
enum { ADJOIN_WEIGHT = 0, ADJOIN_GRADIENT = 1 };
/* Reads or writes all `count` numbers of one: the weight, or its gradient summed over all ranks (zeros where there is none). What is
 * written is the same on all ranks; a gradient that is written replaces what backward has added. Called by all. */
int adjoin_network_read(adjoin_network network, int32_t index, int32_t what, double *numbers, int64_t count);
int adjoin_network_write(adjoin_network network, int32_t index, int32_t what, const double *numbers, int64_t count);

/* How adjoin_step updates: JSON with "rule" (adamw, sgd), "rate", "clip", "decay", "schedule" … (docs/in-situ.md). Called by all. */
int adjoin_network_optimizer(adjoin_network network, const char *json);
/* Sums the gradients of all backward passes since the last step over ranks, clips and updates; gradients are then zero. `rate` below 0:
 * the optimizer's. `norm` gets the gradient's norm, `skipped` whether it was not finite, so that nothing was done; each may be null.
 * Called by all. */
int adjoin_step(adjoin_network network, double rate, double *norm, int32_t *skipped);
/* Adds fields to the running mean and deviation of a layer of type "normalise", as if all fields that it ever got, on all ranks, had come at
 * once. `fields` are like that which the layer reads, or, with "inverse", makes. Passes that come later use the new numbers, those that
 * live too. Called by all; two all-reduces. */
int adjoin_network_observe(adjoin_network network, const char *layer, int32_t fields, const adjoin_array *field);
/* Forgets the gradients. */
int adjoin_zero_gradients(adjoin_network network);

/* A safetensors file with the weights and, where there is an optimizer, all that it remembers. Called by all. */
int adjoin_network_save(adjoin_network network, const char *path);
/* Reads such a file of any number of ranks. With `weights_only` the optimizer, if there is one, stays as it is. Called by all. */
int adjoin_network_load(adjoin_network network, const char *path, int32_t weights_only);

/* -- passes -------------------------------------------------------------------------------------------------------------------- */

/* Applies the network: the channels of all input arrays, one after another, are its inputs, and its outputs go to the output arrays.
 * float and double are converted. Inputs may be overwritten at once, also by the outputs. Called by all. */
int adjoin_infer(adjoin_network network, int32_t inputs, const adjoin_array *in, int32_t outputs, const adjoin_array *out);
/* The same for training: the pass keeps what backward needs. Several passes may be alive. `outputs` may be 0. Called by all. */
int adjoin_forward(adjoin_network network, int32_t inputs, const adjoin_array *in, int32_t outputs, const adjoin_array *out,
                   int32_t input_gradients, adjoin_pass *pass);
/* The mean over all elements of the outputs of "mse", "mae" or "huber" (with `delta`; 0: 1) of their differences from the targets, whose
 * arrays are like those of the outputs. `weights`, which may be null, is an array of one channel: then it is the weighted mean. Called by
 * all. `value` may be null. */
int adjoin_loss(adjoin_pass pass, const char *kind, double delta, int32_t targets, const adjoin_array *target,
                const adjoin_array *weights, double *value);
/* From the loss, or from `out_gradients`, arrays like the outputs. Adds to the network's gradients; writes those of the inputs unless
 * `inputs` is 0. Frees the pass. Called by all. */
int adjoin_backward(adjoin_pass *pass, int32_t outputs, const adjoin_array *out_gradients, int32_t inputs,
                    const adjoin_array *in_gradients);
int adjoin_pass_destroy(adjoin_pass *pass);

/* -- samples ------------------------------------------------------------------------------------------------------------------- */

/* A ring of the latest `capacity` samples, each with inputs and targets of a network in the network's type; it is not saved. Called by
 * all. */
int adjoin_samples_create(adjoin_network network, int64_t capacity, uint64_t seed, adjoin_samples *samples);
int adjoin_samples_destroy(adjoin_samples *samples); /* called by all */
/* Copies a sample of all arrays into it, in the place of the oldest when it is full. Called by all. */
int adjoin_samples_add(adjoin_samples samples, int32_t inputs, const adjoin_array *in, int32_t targets,
                       const adjoin_array *target);
/* Draws `batch` different samples, the same on all ranks, and gives a pass through the network with its loss, as adjoin_forward and
 * adjoin_loss would: adjoin_backward comes next. Called by all. */
int adjoin_samples_draw(adjoin_samples samples, int64_t batch, const char *kind, double delta, double *value,
                        adjoin_pass *pass);

#ifdef __cplusplus
}
#endif

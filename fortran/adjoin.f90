! adjoin for solvers in Fortran 2008: trains and applies one network over the whole domain, which is cut as the solver's fields are.
! docs/in-situ.md leads through it; adjoin.h says what each function does, who calls it and what it costs.
!
! Every procedure has stat= and errmsg= as allocate has them: without stat= an error ends the program with its text. Dims and starts
! count from 1. A field is given as adjoin_of(u(1:n,1:m)): slices without ghost cells are not copied. Fields into which a procedure
! writes need the attribute target.
module adjoin
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: adjoin_array, adjoin_world, adjoin_blocks, adjoin_network, adjoin_pass, adjoin_samples, adjoin_of
  public :: adjoin_start, adjoin_rank, adjoin_counts, adjoin_blocks_of, adjoin_network_of, adjoin_optimizer, adjoin_infer, &
            adjoin_forward, adjoin_loss, adjoin_backward, adjoin_step, adjoin_zero_gradients, adjoin_save, adjoin_load, &
            adjoin_parameters, adjoin_parameter, adjoin_read, adjoin_write, adjoin_free, adjoin_points_of, adjoin_observe, &
            adjoin_samples_of, adjoin_add, adjoin_draw, adjoin_split
  integer, parameter, public :: adjoin_invalid = 1, adjoin_communication = 2, adjoin_io = 3, adjoin_no_memory = 4, &
                                adjoin_internal = 5, adjoin_unsupported = 6
  integer, parameter, public :: adjoin_weight = 0, adjoin_gradient = 1

  integer, parameter :: most_dims = 8

  ! A rank's part of a field, as adjoin_of gives it.
  type, bind(c) :: adjoin_array
    private
    integer(c_int64_t) :: struct_size = 168
    type(c_ptr) :: data = c_null_ptr
    integer(c_int32_t) :: type = 0, dims = 0
    integer(c_int64_t) :: sizes(most_dims) = 0, strides(most_dims) = 1
    integer(c_int32_t) :: channel_dim = -1, batch_dim = -1, device = 0, reserved = 0
  end type
  type, bind(c) :: world_options
    integer(c_int64_t) :: struct_size = 32
    real(c_double) :: deadline = 0
    integer(c_int32_t) :: threads = 0, checked = 0, host_memory = 0, ends_job = 0
  end type
  type :: adjoin_world
    private
    integer(c_int64_t) :: handle = 0
  end type
  type :: adjoin_blocks
    private
    integer(c_int64_t) :: handle = 0
  end type
  type :: adjoin_network
    private
    integer(c_int64_t) :: handle = 0
  end type
  type :: adjoin_pass
    private
    integer(c_int64_t) :: handle = 0
  end type

  type :: adjoin_samples
    private
    integer(c_int64_t) :: handle = 0
  end type

  ! adjoin_of(field, channel_dim, batch_dim): which dims count channels and samples, if there are some.
  interface adjoin_of
    procedure :: of_real32_1, &
                 of_real32_2, &
                 of_real32_3, &
                 of_real32_4, &
                 of_real32_5, &
                 of_real64_1, &
                 of_real64_2, &
                 of_real64_3, &
                 of_real64_4, &
                 of_real64_5
  end interface
  interface adjoin_free
    procedure :: free_world, free_blocks, free_network, free_pass, free_samples
  end interface

  interface
    function c_last_error() bind(c, name="adjoin_last_error") result(text)
      import; type(c_ptr) :: text
    end function
    function c_world_of_mpi(comm, options, world) bind(c, name="adjoin_world_of_mpi_f") result(code)
      import; integer(c_int32_t), value :: comm; type(world_options) :: options; integer(c_int64_t) :: world; integer(c_int) :: code
    end function
    function c_world_alone(options, world) bind(c, name="adjoin_world_alone") result(code)
      import; type(world_options) :: options; integer(c_int64_t) :: world; integer(c_int) :: code
    end function
    function c_world_split(world, color, key, part) bind(c, name="adjoin_world_split") result(code)
      import; integer(c_int64_t), value :: world; integer(c_int32_t), value :: color, key; integer(c_int64_t) :: part
      integer(c_int) :: code
    end function
    function c_world_rank(world, rank, ranks) bind(c, name="adjoin_world_rank") result(code)
      import; integer(c_int64_t), value :: world; integer(c_int32_t) :: rank, ranks; integer(c_int) :: code
    end function
    function c_counts(world, messages, bytes, collectives, collective_bytes) bind(c, name="adjoin_world_counts") result(code)
      import; integer(c_int64_t), value :: world; integer(c_int64_t) :: messages, bytes, collectives, collective_bytes
      integer(c_int) :: code
    end function
    function c_world_destroy(world) bind(c, name="adjoin_world_destroy") result(code)
      import; integer(c_int64_t) :: world; integer(c_int) :: code
    end function
    function c_blocks_create(world, order, dims, shape, starts, sizes, member, blocks) &
      bind(c, name="adjoin_blocks_of_member") result(code)
      import; integer(c_int64_t), value :: world; integer(c_int32_t), value :: order, dims, member
      integer(c_int64_t) :: shape(*), starts(*), sizes(*), blocks; integer(c_int) :: code
    end function
    function c_blocks_of_points(world, points, blocks) bind(c, name="adjoin_blocks_of_points") result(code)
      import; integer(c_int64_t), value :: world, points; integer(c_int64_t) :: blocks; integer(c_int) :: code
    end function
    function c_observe(network, layer, number, fields) bind(c, name="adjoin_network_observe") result(code)
      import; integer(c_int64_t), value :: network; character(kind=c_char) :: layer(*); integer(c_int32_t), value :: number
      type(adjoin_array) :: fields(*); integer(c_int) :: code
    end function
    function c_samples_create(network, capacity, seed, samples) bind(c, name="adjoin_samples_create") result(code)
      import; integer(c_int64_t), value :: network, capacity, seed; integer(c_int64_t) :: samples; integer(c_int) :: code
    end function
    function c_samples_destroy(samples) bind(c, name="adjoin_samples_destroy") result(code)
      import; integer(c_int64_t) :: samples; integer(c_int) :: code
    end function
    function c_samples_add(samples, inputs, in, targets, target) bind(c, name="adjoin_samples_add") result(code)
      import; integer(c_int64_t), value :: samples; integer(c_int32_t), value :: inputs, targets
      type(adjoin_array) :: in(*), target(*); integer(c_int) :: code
    end function
    function c_samples_draw(samples, batch, kind, delta, value, pass) bind(c, name="adjoin_samples_draw") result(code)
      import; integer(c_int64_t), value :: samples, batch; character(kind=c_char) :: kind(*); real(c_double), value :: delta
      real(c_double) :: value; integer(c_int64_t) :: pass; integer(c_int) :: code
    end function
    function c_blocks_destroy(blocks) bind(c, name="adjoin_blocks_destroy") result(code)
      import; integer(c_int64_t) :: blocks; integer(c_int) :: code
    end function
    function c_network_create(blocks, json, type, seed, network) bind(c, name="adjoin_network_create") result(code)
      import; integer(c_int64_t), value :: blocks, seed; character(kind=c_char) :: json(*)
      integer(c_int32_t), value :: type; integer(c_int64_t) :: network; integer(c_int) :: code
    end function
    function c_network_destroy(network) bind(c, name="adjoin_network_destroy") result(code)
      import; integer(c_int64_t) :: network; integer(c_int) :: code
    end function
    function c_parameters(network, number) bind(c, name="adjoin_network_parameters") result(code)
      import; integer(c_int64_t), value :: network; integer(c_int32_t) :: number; integer(c_int) :: code
    end function
    function c_parameter(network, at, name, room, dims, sizes, trained) bind(c, name="adjoin_network_parameter") result(code)
      import; integer(c_int64_t), value :: network; integer(c_int32_t), value :: at, room; character(kind=c_char) :: name(*)
      integer(c_int32_t) :: dims, trained; integer(c_int64_t) :: sizes(*); integer(c_int) :: code
    end function
    function c_read(network, at, what, numbers, number) bind(c, name="adjoin_network_read") result(code)
      import; integer(c_int64_t), value :: network, number; integer(c_int32_t), value :: at, what
      real(c_double) :: numbers(*); integer(c_int) :: code
    end function
    function c_write(network, at, what, numbers, number) bind(c, name="adjoin_network_write") result(code)
      import; integer(c_int64_t), value :: network, number; integer(c_int32_t), value :: at, what
      real(c_double), intent(in) :: numbers(*); integer(c_int) :: code
    end function
    function c_optimizer(network, json) bind(c, name="adjoin_network_optimizer") result(code)
      import; integer(c_int64_t), value :: network; character(kind=c_char) :: json(*); integer(c_int) :: code
    end function
    function c_step(network, rate, norm, skipped) bind(c, name="adjoin_step") result(code)
      import; integer(c_int64_t), value :: network; real(c_double), value :: rate; real(c_double) :: norm
      integer(c_int32_t) :: skipped; integer(c_int) :: code
    end function
    function c_zero_gradients(network) bind(c, name="adjoin_zero_gradients") result(code)
      import; integer(c_int64_t), value :: network; integer(c_int) :: code
    end function
    function c_save(network, path) bind(c, name="adjoin_network_save") result(code)
      import; integer(c_int64_t), value :: network; character(kind=c_char) :: path(*); integer(c_int) :: code
    end function
    function c_load(network, path, weights_only) bind(c, name="adjoin_network_load") result(code)
      import; integer(c_int64_t), value :: network; character(kind=c_char) :: path(*); integer(c_int32_t), value :: weights_only
      integer(c_int) :: code
    end function
    function c_infer(network, inputs, in, outputs, out) bind(c, name="adjoin_infer") result(code)
      import; integer(c_int64_t), value :: network; integer(c_int32_t), value :: inputs, outputs
      type(adjoin_array), intent(in) :: in(*), out(*); integer(c_int) :: code
    end function
    function c_forward(network, inputs, in, outputs, out, gradients, pass) bind(c, name="adjoin_forward") result(code)
      import; integer(c_int64_t), value :: network; integer(c_int32_t), value :: inputs, outputs, gradients
      type(adjoin_array), intent(in) :: in(*), out(*); integer(c_int64_t) :: pass; integer(c_int) :: code
    end function
    function c_loss(pass, kind, delta, targets, target, weights, value) bind(c, name="adjoin_loss") result(code)
      import; integer(c_int64_t), value :: pass; character(kind=c_char) :: kind(*); integer(c_int32_t), value :: targets
      real(c_double), value :: delta; type(adjoin_array), intent(in) :: target(*); type(c_ptr), value :: weights
      real(c_double) :: value; integer(c_int) :: code
    end function
    function c_backward(pass, outputs, out_gradients, inputs, in_gradients) bind(c, name="adjoin_backward") result(code)
      import; integer(c_int64_t) :: pass; integer(c_int32_t), value :: outputs, inputs
      type(adjoin_array), intent(in) :: out_gradients(*), in_gradients(*); integer(c_int) :: code
    end function
    function c_pass_destroy(pass) bind(c, name="adjoin_pass_destroy") result(code)
      import; integer(c_int64_t) :: pass; integer(c_int) :: code
    end function
    function c_strlen(text) bind(c, name="strlen") result(length)
      import; type(c_ptr), value :: text; integer(c_size_t) :: length
    end function
  end interface

contains

  ! Does with a function's code what allocate does with an error.
  subroutine tell(code, stat, errmsg)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char), pointer :: text(:)
    type(c_ptr) :: at
    integer :: i
    character(:), allocatable :: message
    if (present(stat)) stat = code
    if (code == 0) return
    at = c_last_error()
    call c_f_pointer(at, text, [c_strlen(at)])
    allocate(character(size(text)) :: message)
    do i = 1, size(text)
      message(i:i) = text(i)
    end do
    if (present(errmsg)) errmsg = message
    if (present(stat)) return
    write(*, '(2a)') "adjoin: ", message
    error stop 1
  end subroutine

  subroutine begin(view, type, sizes, channel_dim, batch_dim)
    type(adjoin_array), intent(inout) :: view
    integer, intent(in) :: type, sizes(:)
    integer, intent(in), optional :: channel_dim, batch_dim
    integer :: d
    view%type = int(type, c_int32_t)
    view%dims = size(sizes, kind=c_int32_t)
    view%sizes(:size(sizes)) = sizes
    do d = 2, size(sizes)
      view%strides(d) = view%strides(d - 1) * sizes(d - 1)
    end do
    if (present(channel_dim)) view%channel_dim = int(channel_dim - 1, c_int32_t)
    if (present(batch_dim)) view%batch_dim = int(batch_dim - 1, c_int32_t)
  end subroutine

  ! The distance of two elements, which Fortran 2008 knows only as that of their addresses.
  subroutine measure(view, d, first, second, bits)
    type(adjoin_array), intent(inout) :: view
    integer, intent(in) :: d, bits
    type(c_ptr), intent(in) :: first, second
    view%strides(d) = (transfer(second, 0_c_intptr_t) - transfer(first, 0_c_intptr_t)) / (bits / 8)
  end subroutine

  function of_real32_1(a, channel_dim, batch_dim) result(view)
    real(c_float), intent(in), target :: a(:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 0, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1)), c_loc(a(2)), storage_size(a))
  end function

  function of_real32_2(a, channel_dim, batch_dim) result(view)
    real(c_float), intent(in), target :: a(:,:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 0, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1,1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1,1)), c_loc(a(2,1)), storage_size(a))
    if (size(a, 2) > 1) call measure(view, 2, c_loc(a(1,1)), c_loc(a(1,2)), storage_size(a))
  end function

  function of_real32_3(a, channel_dim, batch_dim) result(view)
    real(c_float), intent(in), target :: a(:,:,:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 0, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1,1,1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1,1,1)), c_loc(a(2,1,1)), storage_size(a))
    if (size(a, 2) > 1) call measure(view, 2, c_loc(a(1,1,1)), c_loc(a(1,2,1)), storage_size(a))
    if (size(a, 3) > 1) call measure(view, 3, c_loc(a(1,1,1)), c_loc(a(1,1,2)), storage_size(a))
  end function

  function of_real32_4(a, channel_dim, batch_dim) result(view)
    real(c_float), intent(in), target :: a(:,:,:,:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 0, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1,1,1,1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1,1,1,1)), c_loc(a(2,1,1,1)), storage_size(a))
    if (size(a, 2) > 1) call measure(view, 2, c_loc(a(1,1,1,1)), c_loc(a(1,2,1,1)), storage_size(a))
    if (size(a, 3) > 1) call measure(view, 3, c_loc(a(1,1,1,1)), c_loc(a(1,1,2,1)), storage_size(a))
    if (size(a, 4) > 1) call measure(view, 4, c_loc(a(1,1,1,1)), c_loc(a(1,1,1,2)), storage_size(a))
  end function

  function of_real32_5(a, channel_dim, batch_dim) result(view)
    real(c_float), intent(in), target :: a(:,:,:,:,:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 0, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1,1,1,1,1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1,1,1,1,1)), c_loc(a(2,1,1,1,1)), storage_size(a))
    if (size(a, 2) > 1) call measure(view, 2, c_loc(a(1,1,1,1,1)), c_loc(a(1,2,1,1,1)), storage_size(a))
    if (size(a, 3) > 1) call measure(view, 3, c_loc(a(1,1,1,1,1)), c_loc(a(1,1,2,1,1)), storage_size(a))
    if (size(a, 4) > 1) call measure(view, 4, c_loc(a(1,1,1,1,1)), c_loc(a(1,1,1,2,1)), storage_size(a))
    if (size(a, 5) > 1) call measure(view, 5, c_loc(a(1,1,1,1,1)), c_loc(a(1,1,1,1,2)), storage_size(a))
  end function

  function of_real64_1(a, channel_dim, batch_dim) result(view)
    real(c_double), intent(in), target :: a(:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 1, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1)), c_loc(a(2)), storage_size(a))
  end function

  function of_real64_2(a, channel_dim, batch_dim) result(view)
    real(c_double), intent(in), target :: a(:,:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 1, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1,1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1,1)), c_loc(a(2,1)), storage_size(a))
    if (size(a, 2) > 1) call measure(view, 2, c_loc(a(1,1)), c_loc(a(1,2)), storage_size(a))
  end function

  function of_real64_3(a, channel_dim, batch_dim) result(view)
    real(c_double), intent(in), target :: a(:,:,:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 1, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1,1,1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1,1,1)), c_loc(a(2,1,1)), storage_size(a))
    if (size(a, 2) > 1) call measure(view, 2, c_loc(a(1,1,1)), c_loc(a(1,2,1)), storage_size(a))
    if (size(a, 3) > 1) call measure(view, 3, c_loc(a(1,1,1)), c_loc(a(1,1,2)), storage_size(a))
  end function

  function of_real64_4(a, channel_dim, batch_dim) result(view)
    real(c_double), intent(in), target :: a(:,:,:,:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 1, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1,1,1,1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1,1,1,1)), c_loc(a(2,1,1,1)), storage_size(a))
    if (size(a, 2) > 1) call measure(view, 2, c_loc(a(1,1,1,1)), c_loc(a(1,2,1,1)), storage_size(a))
    if (size(a, 3) > 1) call measure(view, 3, c_loc(a(1,1,1,1)), c_loc(a(1,1,2,1)), storage_size(a))
    if (size(a, 4) > 1) call measure(view, 4, c_loc(a(1,1,1,1)), c_loc(a(1,1,1,2)), storage_size(a))
  end function

  function of_real64_5(a, channel_dim, batch_dim) result(view)
    real(c_double), intent(in), target :: a(:,:,:,:,:)
    integer, intent(in), optional :: channel_dim, batch_dim
    type(adjoin_array) :: view
    call begin(view, 1, shape(a), channel_dim, batch_dim)
    if (size(a) == 0) return
    view%data = c_loc(a(1,1,1,1,1))
    if (size(a, 1) > 1) call measure(view, 1, c_loc(a(1,1,1,1,1)), c_loc(a(2,1,1,1,1)), storage_size(a))
    if (size(a, 2) > 1) call measure(view, 2, c_loc(a(1,1,1,1,1)), c_loc(a(1,2,1,1,1)), storage_size(a))
    if (size(a, 3) > 1) call measure(view, 3, c_loc(a(1,1,1,1,1)), c_loc(a(1,1,2,1,1)), storage_size(a))
    if (size(a, 4) > 1) call measure(view, 4, c_loc(a(1,1,1,1,1)), c_loc(a(1,1,1,2,1)), storage_size(a))
    if (size(a, 5) > 1) call measure(view, 5, c_loc(a(1,1,1,1,1)), c_loc(a(1,1,1,1,2)), storage_size(a))
  end function

  ! A world of the ranks of an MPI communicator, or of this rank alone.
  subroutine adjoin_start(world, comm, deadline, threads, checked, host_memory, ends_job, stat, errmsg)
    type(adjoin_world), intent(out) :: world
    integer, intent(in), optional :: comm
    real(c_double), intent(in), optional :: deadline
    integer, intent(in), optional :: threads, host_memory
    logical, intent(in), optional :: checked, ends_job
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(world_options) :: options
    if (present(deadline)) options%deadline = deadline
    if (present(threads)) options%threads = int(threads, c_int32_t)
    if (present(host_memory)) options%host_memory = int(host_memory, c_int32_t)
    if (present(checked)) options%checked = merge(1_c_int32_t, 0_c_int32_t, checked)
    if (present(ends_job)) options%ends_job = merge(1_c_int32_t, 0_c_int32_t, ends_job)
    if (present(comm)) then
      call tell(c_world_of_mpi(int(comm, c_int32_t), options, world%handle), stat, errmsg)
    else
      call tell(c_world_alone(options, world%handle), stat, errmsg)
    end if
  end subroutine

  ! A part of a world, of the ranks with one color, in the order of their keys; below 0: of none.
  subroutine adjoin_split(part, world, color, key, stat, errmsg)
    type(adjoin_world), intent(out) :: part
    type(adjoin_world), intent(in) :: world
    integer, intent(in) :: color
    integer, intent(in), optional :: key
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: place
    place = 0
    if (present(key)) place = int(key, c_int32_t)
    call tell(c_world_split(world%handle, int(color, c_int32_t), place, part%handle), stat, errmsg)
  end subroutine

  ! The rank of the caller in its world, from 0 as in MPI, and the number of ranks.
  subroutine adjoin_rank(world, rank, ranks, stat, errmsg)
    type(adjoin_world), intent(in) :: world
    integer, intent(out) :: rank, ranks
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: own, all
    call tell(c_world_rank(world%handle, own, all), stat, errmsg)
    rank = own
    ranks = all
  end subroutine

  subroutine adjoin_counts(world, messages, bytes, collectives, collective_bytes, stat, errmsg)
    type(adjoin_world), intent(in) :: world
    integer(c_int64_t), intent(out) :: messages, bytes, collectives, collective_bytes
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_counts(world%handle, messages, bytes, collectives, collective_bytes), stat, errmsg)
  end subroutine

  ! `member`, from 1, where the ranks of all members of an ensemble are in this world.
  subroutine adjoin_blocks_of(blocks, world, shape, starts, sizes, member, stat, errmsg)
    type(adjoin_blocks), intent(out) :: blocks
    type(adjoin_world), intent(in) :: world
    integer, intent(in) :: shape(:), starts(:), sizes(:)
    integer, intent(in), optional :: member
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: dims, of_ensemble
    dims = size(shape, kind=c_int32_t)
    of_ensemble = 0
    if (present(member)) of_ensemble = int(member - 1, c_int32_t)
    if (size(starts) /= size(shape) .or. size(sizes) /= size(shape)) dims = 0
    call tell(c_blocks_create(world%handle, 1_c_int32_t, dims, int(shape, c_int64_t), int(starts - 1, c_int64_t), &
                              int(sizes, c_int64_t), of_ensemble, blocks%handle), stat, errmsg)
  end subroutine

  ! So many points of an unstructured mesh, or columns, on this rank.
  subroutine adjoin_points_of(blocks, world, points, stat, errmsg)
    type(adjoin_blocks), intent(out) :: blocks
    type(adjoin_world), intent(in) :: world
    integer, intent(in) :: points
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_blocks_of_points(world%handle, int(points, c_int64_t), blocks%handle), stat, errmsg)
  end subroutine

  ! Adds fields to the running mean and deviation of a layer of type "normalise".
  subroutine adjoin_observe(network, layer, fields, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    character(*), intent(in) :: layer
    type(adjoin_array), intent(in) :: fields(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_observe(network%handle, layer // c_null_char, size(fields, kind=c_int32_t), fields), stat, errmsg)
  end subroutine

  ! A ring of the latest `capacity` samples.
  subroutine adjoin_samples_of(samples, network, capacity, seed, stat, errmsg)
    type(adjoin_samples), intent(out) :: samples
    type(adjoin_network), intent(in) :: network
    integer, intent(in) :: capacity
    integer, intent(in), optional :: seed
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: number
    number = 1
    if (present(seed)) number = seed
    call tell(c_samples_create(network%handle, int(capacity, c_int64_t), number, samples%handle), stat, errmsg)
  end subroutine

  subroutine adjoin_add(samples, inputs, targets, stat, errmsg)
    type(adjoin_samples), intent(in) :: samples
    type(adjoin_array), intent(in) :: inputs(:), targets(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_samples_add(samples%handle, size(inputs, kind=c_int32_t), inputs, size(targets, kind=c_int32_t), targets), &
              stat, errmsg)
  end subroutine

  ! A pass of `batch` samples with its loss; adjoin_backward comes next.
  subroutine adjoin_draw(pass, samples, batch, kind, delta, value, stat, errmsg)
    type(adjoin_pass), intent(out) :: pass
    type(adjoin_samples), intent(in) :: samples
    integer, intent(in) :: batch
    character(*), intent(in) :: kind
    real(c_double), intent(in), optional :: delta
    real(c_double), intent(out), optional :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double) :: threshold, found
    threshold = 0
    found = 0
    if (present(delta)) threshold = delta
    call tell(c_samples_draw(samples%handle, int(batch, c_int64_t), kind // c_null_char, threshold, found, pass%handle), &
              stat, errmsg)
    if (present(value)) value = found
  end subroutine

  subroutine adjoin_network_of(network, blocks, json, double, seed, stat, errmsg)
    type(adjoin_network), intent(out) :: network
    type(adjoin_blocks), intent(in) :: blocks
    character(*), intent(in) :: json
    logical, intent(in), optional :: double
    integer, intent(in), optional :: seed
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: type
    integer(c_int64_t) :: number
    type = 0
    if (present(double)) type = merge(1_c_int32_t, 0_c_int32_t, double)
    number = 1
    if (present(seed)) number = seed
    call tell(c_network_create(blocks%handle, json // c_null_char, type, number, network%handle), stat, errmsg)
  end subroutine

  subroutine adjoin_parameters(network, number, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    integer, intent(out) :: number
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: found
    found = 0
    call tell(c_parameters(network%handle, found), stat, errmsg)
    number = found
  end subroutine

  ! The name of a weight, and how many numbers it has; index counts from 1.
  subroutine adjoin_parameter(network, index, name, elements, trained, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    integer, intent(in) :: index
    character(*), intent(out), optional :: name
    integer(c_int64_t), intent(out), optional :: elements
    logical, intent(out), optional :: trained
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    character(kind=c_char) :: text(256)
    integer(c_int64_t) :: sizes(most_dims)
    integer(c_int32_t) :: dims, is_trained
    integer :: i
    dims = 0
    is_trained = 0
    text(1) = c_null_char
    call tell(c_parameter(network%handle, int(index - 1, c_int32_t), text, 256_c_int32_t, dims, sizes, is_trained), stat, errmsg)
    if (present(elements)) elements = product(sizes(:dims))
    if (present(trained)) trained = is_trained /= 0
    if (.not. present(name)) return
    name = ""
    do i = 1, min(len(name), size(text))
      if (text(i) == c_null_char) exit
      name(i:i) = text(i)
    end do
  end subroutine

  subroutine adjoin_read(network, index, numbers, what, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    integer, intent(in) :: index
    real(c_double), intent(out) :: numbers(:)
    integer, intent(in), optional :: what
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double) :: copy(size(numbers))
    call tell(c_read(network%handle, int(index - 1, c_int32_t), kind_of(what), copy, size(copy, kind=c_int64_t)), stat, errmsg)
    numbers = copy
  end subroutine

  subroutine adjoin_write(network, index, numbers, what, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    integer, intent(in) :: index
    real(c_double), intent(in) :: numbers(:)
    integer, intent(in), optional :: what
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_write(network%handle, int(index - 1, c_int32_t), kind_of(what), numbers, size(numbers, kind=c_int64_t)), &
              stat, errmsg)
  end subroutine

  pure integer(c_int32_t) function kind_of(what)
    integer, intent(in), optional :: what
    kind_of = adjoin_weight
    if (present(what)) kind_of = int(what, c_int32_t)
  end function

  subroutine adjoin_optimizer(network, json, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    character(*), intent(in) :: json
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_optimizer(network%handle, json // c_null_char), stat, errmsg)
  end subroutine

  subroutine adjoin_step(network, rate, norm, skipped, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    real(c_double), intent(in), optional :: rate
    real(c_double), intent(out), optional :: norm
    logical, intent(out), optional :: skipped
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(c_double) :: given, of_step
    integer(c_int32_t) :: was_skipped
    given = -1
    of_step = 0
    was_skipped = 0
    if (present(rate)) given = rate
    call tell(c_step(network%handle, given, of_step, was_skipped), stat, errmsg)
    if (present(norm)) norm = of_step
    if (present(skipped)) skipped = was_skipped /= 0
  end subroutine

  subroutine adjoin_zero_gradients(network, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_zero_gradients(network%handle), stat, errmsg)
  end subroutine

  subroutine adjoin_save(network, path, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_save(network%handle, path // c_null_char), stat, errmsg)
  end subroutine

  subroutine adjoin_load(network, path, weights_only, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    character(*), intent(in) :: path
    logical, intent(in), optional :: weights_only
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer(c_int32_t) :: only
    only = 0
    if (present(weights_only)) only = merge(1_c_int32_t, 0_c_int32_t, weights_only)
    call tell(c_load(network%handle, path // c_null_char, only), stat, errmsg)
  end subroutine

  subroutine adjoin_infer(network, inputs, outputs, stat, errmsg)
    type(adjoin_network), intent(in) :: network
    type(adjoin_array), intent(in) :: inputs(:), outputs(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_infer(network%handle, size(inputs, kind=c_int32_t), inputs, size(outputs, kind=c_int32_t), outputs), stat, errmsg)
  end subroutine

  subroutine adjoin_forward(pass, network, inputs, outputs, input_gradients, stat, errmsg)
    type(adjoin_pass), intent(out) :: pass
    type(adjoin_network), intent(in) :: network
    type(adjoin_array), intent(in) :: inputs(:)
    type(adjoin_array), intent(in), optional :: outputs(:)
    logical, intent(in), optional :: input_gradients
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(adjoin_array), allocatable :: out(:)
    integer(c_int32_t) :: wanted
    allocate(out(0))
    if (present(outputs)) out = outputs
    wanted = 0
    if (present(input_gradients)) wanted = merge(1_c_int32_t, 0_c_int32_t, input_gradients)
    call tell(c_forward(network%handle, size(inputs, kind=c_int32_t), inputs, size(out, kind=c_int32_t), out, wanted, &
                        pass%handle), stat, errmsg)
  end subroutine

  subroutine adjoin_loss(pass, kind, targets, weights, delta, value, stat, errmsg)
    type(adjoin_pass), intent(in) :: pass
    character(*), intent(in) :: kind
    type(adjoin_array), intent(in) :: targets(:)
    type(adjoin_array), intent(in), optional, target :: weights
    real(c_double), intent(in), optional :: delta
    real(c_double), intent(out), optional :: value
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_ptr) :: of_cells
    real(c_double) :: threshold, found
    of_cells = c_null_ptr
    threshold = 0
    found = 0
    if (present(weights)) of_cells = c_loc(weights)
    if (present(delta)) threshold = delta
    call tell(c_loss(pass%handle, kind // c_null_char, threshold, size(targets, kind=c_int32_t), targets, of_cells, found), &
              stat, errmsg)
    if (present(value)) value = found
  end subroutine

  subroutine adjoin_backward(pass, output_gradients, input_gradients, stat, errmsg)
    type(adjoin_pass), intent(inout) :: pass
    type(adjoin_array), intent(in), optional :: output_gradients(:), input_gradients(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(adjoin_array), allocatable :: of_outputs(:), of_inputs(:)
    allocate(of_outputs(0), of_inputs(0))
    if (present(output_gradients)) of_outputs = output_gradients
    if (present(input_gradients)) of_inputs = input_gradients
    call tell(c_backward(pass%handle, size(of_outputs, kind=c_int32_t), of_outputs, size(of_inputs, kind=c_int32_t), of_inputs), &
              stat, errmsg)
  end subroutine

  subroutine free_world(what, stat, errmsg)
    type(adjoin_world), intent(inout) :: what
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_world_destroy(what%handle), stat, errmsg)
  end subroutine
  subroutine free_blocks(what, stat, errmsg)
    type(adjoin_blocks), intent(inout) :: what
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_blocks_destroy(what%handle), stat, errmsg)
  end subroutine
  subroutine free_network(what, stat, errmsg)
    type(adjoin_network), intent(inout) :: what
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_network_destroy(what%handle), stat, errmsg)
  end subroutine
  subroutine free_pass(what, stat, errmsg)
    type(adjoin_pass), intent(inout) :: what
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_pass_destroy(what%handle), stat, errmsg)
  end subroutine
  subroutine free_samples(what, stat, errmsg)
    type(adjoin_samples), intent(inout) :: what
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    call tell(c_samples_destroy(what%handle), stat, errmsg)
  end subroutine
end module

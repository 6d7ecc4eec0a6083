! A tracer is carried through a channel, periodic in x and y and with walls in z, by a scheme of second order, on uneven blocks over MPI's
! ranks. While it runs, a U-Net over the whole channel learns what this scheme lacks against one of fourth order. Trained weights are
! saved; a later run on any number of ranks goes on with them.
!
! usage: mpirun -n 4 closure STEPS SAVED [EARLIER]
program closure
  use mpi
  use adjoin
  use, intrinsic :: iso_c_binding, only: c_double
  implicit none
  integer, parameter :: g = 2                                   ! ghost layers
  integer, parameter :: n(3) = [12, 10, 8]
  real(c_double), parameter :: pi = acos(-1d0), dt = 0.1d0, diffusion = 0.05d0
  integer :: rank, ranks, cart, error, parts(2), coords(2), start(3), m(3), neighbours(4), steps, step, d
  real(c_double), allocatable, target :: u(:, :, :), coarse(:, :, :), lacking(:, :, :), guess(:, :, :)
  real(c_double) :: loss, wind(3) = [1d0, 0.5d0, 0.25d0]
  character(200) :: word, saved, earlier
  type(adjoin_world) :: world
  type(adjoin_blocks) :: blocks
  type(adjoin_network) :: network
  type(adjoin_pass) :: pass
  character(*), parameter :: unet = '{"inputs": 1, "padding": ["periodic", "periodic", "replicate"], "layers": [' // &
    '{"type": "conv", "out": 8}, "gelu", {"type": "conv", "out": 8}, {"name": "fine", "type": "gelu"},' // &
    '"avgpool", {"type": "conv", "out": 16}, "gelu", {"name": "up", "type": "up", "out": 8, "like": "fine"},' // &
    '{"type": "cat", "of": ["up", "fine"]}, {"type": "conv", "out": 8}, "gelu", {"type": "conv", "out": 1, "kernel": 1}]}'

  call get_command_argument(1, word)
  read (word, *) steps
  call get_command_argument(2, saved)
  call get_command_argument(3, earlier)
  call MPI_Init_thread(MPI_THREAD_FUNNELED, d, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  parts = 0
  call MPI_Dims_create(ranks, 2, parts, error)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, parts, [.true., .false.], .true., cart, error)
  call MPI_Comm_rank(cart, rank, error)
  call MPI_Cart_coords(cart, rank, 2, coords, error)
  start(1) = 1
  m(1) = n(1)
  do d = 1, 2                                                   ! y and z are cut, the first block is larger
    call uneven(n(d + 1), parts(d), coords(d), start(d + 1), m(d + 1))
    call MPI_Cart_shift(cart, d - 1, 1, neighbours(2 * d - 1), neighbours(2 * d), error)
  end do
  allocate(u(1-g:m(1)+g, 1-g:m(2)+g, 1-g:m(3)+g), source=0d0)
  allocate(coarse(m(1), m(2), m(3)), source=0d0)
  allocate(lacking, guess, source=coarse)
  call begin_with_waves()

  call adjoin_start(world, comm=cart)
  call adjoin_blocks_of(blocks, world, n, start, m)
  call adjoin_network_of(network, blocks, unet, double=.true.)
  call adjoin_optimizer(network, '{"rate": 0.003, "clip": 10}')
  if (earlier /= "") call adjoin_load(network, trim(earlier))

  do step = 1, steps
    call exchange_ghosts()
    call tendency(2, coarse)
    call tendency(4, lacking)
    lacking = 100 * (lacking - coarse)
    call adjoin_forward(pass, network, [adjoin_of(u(1:m(1), 1:m(2), 1:m(3)))], [adjoin_of(guess)])
    call adjoin_loss(pass, "mse", [adjoin_of(lacking)], value=loss)
    call adjoin_backward(pass)
    call adjoin_step(network)
    if (rank == 0) print '(a,i4,a,es18.10)', "step", step, ": loss", loss
    u(1:m(1), 1:m(2), 1:m(3)) = u(1:m(1), 1:m(2), 1:m(3)) + dt * coarse
  end do

  call adjoin_save(network, trim(saved))
  call adjoin_free(network)
  call adjoin_free(blocks)
  call adjoin_free(world)
  call MPI_Finalize(error)

contains

  subroutine uneven(cells, parts, part, first, own)
    integer, intent(in) :: cells, parts, part
    integer, intent(out) :: first, own
    integer :: small
    small = max(1, cells / parts - 1)
    own = merge(cells - (parts - 1) * small, small, part == 0)
    first = merge(1, cells - (parts - part) * small + 1, part == 0)
  end subroutine

  subroutine begin_with_waves()
    integer :: i, j, k
    do k = 1, m(3)
      do j = 1, m(2)
        do i = 1, m(1)
          u(i, j, k) = sin(2 * pi * i / n(1)) * cos(4 * pi * (start(2) + j) / n(2)) + cos(pi * (start(3) + k - 1.5d0) / n(3))
        end do
      end do
    end do
  end subroutine

  subroutine exchange_ghosts()
    integer :: k
    u(1-g:0, :, :) = u(m(1)-g+1:m(1), :, :)
    u(m(1)+1:m(1)+g, :, :) = u(1:g, :, :)
    call swap(2, neighbours(1), neighbours(2))
    call swap(3, neighbours(3), neighbours(4))
    do k = 1, g                                                 ! walls: nothing flows through them
      if (coords(2) == 0) u(:, :, 1 - k) = u(:, :, 1)
      if (coords(2) == parts(2) - 1) u(:, :, m(3) + k) = u(:, :, m(3))
    end do
  end subroutine

  ! Layer by layer, as a block may be thinner than the ghosts.
  subroutine swap(dim, left, right)
    integer, intent(in) :: dim, left, right
    integer :: layer
    do layer = 1, g
      call send_layer(dim, m(dim) - layer + 1, right, 1 - layer, left)
      call send_layer(dim, layer, left, m(dim) + layer, right)
    end do
  end subroutine

  subroutine send_layer(dim, from, to_rank, to, from_rank)
    integer, intent(in) :: dim, from, to_rank, to, from_rank
    real(c_double), allocatable :: out(:, :), in(:, :)
    if (dim == 2) out = u(:, from, :)
    if (dim == 3) out = u(:, :, from)
    allocate(in, mold=out)
    call MPI_Sendrecv(out, size(out), MPI_DOUBLE_PRECISION, to_rank, 0, in, size(in), MPI_DOUBLE_PRECISION, from_rank, 0, cart, &
                      MPI_STATUS_IGNORE, error)
    if (from_rank == MPI_PROC_NULL) return
    if (dim == 2) u(:, to, :) = in
    if (dim == 3) u(:, :, to) = in
  end subroutine

  ! Advection of second or fourth order, and diffusion.
  subroutine tendency(order, f)
    integer, intent(in) :: order
    real(c_double), intent(out) :: f(:, :, :)
    integer :: d, e(3)
    f = 0
    do d = 1, 3
      e = merge(1, 0, [1, 2, 3] == d)
      if (order == 2) f = f - wind(d) * (moved(e) - moved(-e)) / 2
      if (order == 4) f = f - wind(d) * (8 * (moved(e) - moved(-e)) - moved(2 * e) + moved(-2 * e)) / 12
      f = f + diffusion * (moved(e) - 2 * moved(0 * e) + moved(-e))
    end do
  end subroutine

  function moved(by) result(v)
    integer, intent(in) :: by(3)
    real(c_double) :: v(m(1), m(2), m(3))
    v = u(1+by(1):m(1)+by(1), 1+by(2):m(2)+by(2), 1+by(3):m(3)+by(3))
  end function
end program

! A tracer is carried through a channel, periodic in x and y and with walls in z, on uneven blocks over MPI's ranks. While fine runs go
! on, a U-Net over the whole channel learns what steps on cells of twice the size lack, and is saved. Then it closes a coarse run of 100
! steps from waves that it has not seen. Later runs on any number of ranks go on with a saved network; with 0 steps they only use it.
! With "alone" each rank trains a network of its own on its block, beyond whose edges it sees nothing.
!
! usage: mpirun -n 4 closure STEPS SAVED [EARLIER|alone]
program closure
  use mpi
  use adjoin
  use, intrinsic :: iso_c_binding, only: c_double
  implicit none
  integer, parameter :: n(3) = [12, 10, 8], seen = 10           ! so many steps of each fine run are seen
  real(c_double), parameter :: pi = acos(-1d0), dt = 0.1d0, diffusion = 0.05d0, wind(3) = [1d0, 0.5d0, 0.25d0]
  integer :: rank, ranks, cart, error, parts(2) = 0, coords(2), start(3) = 1, m(3) = n, neighbours(4), steps, step, d
  real(c_double), allocatable, target :: fine(:, :, :), u(:, :, :), plain(:, :, :), lacking(:, :, :), guess(:, :, :)
  real(c_double) :: loss
  character(200) :: word, saved, earlier
  type(adjoin_world) :: world
  type(adjoin_blocks) :: blocks
  type(adjoin_network) :: network
  type(adjoin_pass) :: pass
  character(*), parameter :: unet = '{"inputs": 1, "padding": ["periodic", "EDGE", "replicate"], "layers": [' // &
    '{"type": "conv", "out": 8}, {"name": "fine", "type": "gelu"}, "avgpool", {"type": "conv", "out": 8}, "gelu",' // &
    '{"name": "up", "type": "up", "out": 8, "like": "fine"}, {"type": "cat", "of": ["up", "fine", "input"]},' // &
    '{"type": "conv", "out": 1}, {"name": "scale", "type": "normalise", "inverse": true}]}'

  call get_command_argument(1, word)
  read (word, *) steps
  call get_command_argument(2, saved); call get_command_argument(3, earlier)
  call MPI_Init_thread(MPI_THREAD_FUNNELED, d, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Dims_create(ranks, 2, parts, error)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, parts, [.true., .false.], .true., cart, error)
  call MPI_Comm_rank(cart, rank, error); call MPI_Cart_coords(cart, rank, 2, coords, error)
  do d = 1, 2                                                   ! y and z are cut, the first block is larger
    m(d + 1) = max(1, n(d + 1) / parts(d) - 1)
    start(d + 1) = merge(1, n(d + 1) - (parts(d) - coords(d)) * m(d + 1) + 1, coords(d) == 0)
    if (coords(d) == 0) m(d + 1) = n(d + 1) - (parts(d) - 1) * m(d + 1)
    call MPI_Cart_shift(cart, d - 1, 1, neighbours(2 * d - 1), neighbours(2 * d), error)
  end do
  allocate(fine(0:2*m(1)+1, 0:2*m(2)+1, 0:2*m(3)+1), u(0:m(1)+1, 0:m(2)+1, 0:m(3)+1), source=0d0)
  allocate(lacking(m(1), m(2), m(3)), guess(m(1), m(2), m(3)), source=0d0)

  if (earlier == "alone") then
    call adjoin_start(world)
    call adjoin_blocks_of(blocks, world, m, [1, 1, 1], m)
  else
    call adjoin_start(world, comm=cart)
    call adjoin_blocks_of(blocks, world, n, start, m)
  end if
  d = index(unet, "EDGE")
  word = merge("replicate", "periodic ", earlier == "alone" .and. parts(1) > 1)
  call adjoin_network_of(network, blocks, unet(:d - 1) // trim(word) // unet(d + 4:), double=.true.)
  write (word, '(a,i0,a)') '{"rate": 0.003, "clip": 1, "schedule": "cosine", "steps": ', max(1, steps), '}'
  call adjoin_optimizer(network, trim(word))
  if (earlier /= "" .and. earlier /= "alone") call adjoin_load(network, trim(earlier))

  do step = 1, steps
    if (mod(step, seen) == 1) call begin_with_waves(step)
    u(1:m(1), 1:m(2), 1:m(3)) = coarsened()
    call adjoin_forward(pass, network, [adjoin_of(u(1:m(1), 1:m(2), 1:m(3)))])
    call advance(u, 1d0, dt)
    call advance(fine, 0.5d0, dt / 2)
    call advance(fine, 0.5d0, dt / 2)
    lacking = (coarsened() - u(1:m(1), 1:m(2), 1:m(3))) / dt
    if (step <= 5 * seen) call adjoin_observe(network, "scale", [adjoin_of(lacking)])
    call adjoin_loss(pass, "mse", [adjoin_of(lacking)], value=loss)
    call adjoin_backward(pass)
    call adjoin_step(network)
    if (rank == 0) print '(a,i4,a,es18.10)', "step", step, ": loss", loss
  end do
  if (steps > 0 .and. earlier /= "alone") call adjoin_save(network, trim(saved))

  call begin_with_waves(0)
  u(1:m(1), 1:m(2), 1:m(3)) = coarsened()
  plain = u
  do step = 1, 100
    call adjoin_infer(network, [adjoin_of(u(1:m(1), 1:m(2), 1:m(3)))], [adjoin_of(guess)])
    call advance(u, 1d0, dt)
    u(1:m(1), 1:m(2), 1:m(3)) = u(1:m(1), 1:m(2), 1:m(3)) + dt * guess
    call advance(plain, 1d0, dt)
    call advance(fine, 0.5d0, dt / 2)
    call advance(fine, 0.5d0, dt / 2)
  end do
  loss = distance(u) / distance(plain)
  if (rank == 0) print '(a,f7.4)', "distance from the fine run after 100 steps, of that without the network:", loss
  call adjoin_free(network); call adjoin_free(blocks); call adjoin_free(world)
  call MPI_Finalize(error)

contains

  ! Three waves that all ranks draw alike by a number.
  subroutine begin_with_waves(number)
    integer, intent(in) :: number
    integer :: i, j, k
    real(c_double) :: r(3, 4), at(3)
    call random_seed(size=k)
    call random_seed(put=[(7919 * number + i, i=1, k)])
    do i = 1, 9                                                 ! the first draws of seeds that are near are near
      call random_number(r)
    end do
    do k = 1, 2 * m(3)
      do j = 1, 2 * m(2)
        do i = 1, 2 * m(1)
          at = ([i, j, k] + 2 * (start - 1) - 0.5d0) / (2 * n)
          fine(i, j, k) = sum(sin(2 * pi * (floor(3 * r(:, 1)) * at(1) + floor(3 * r(:, 2)) * at(2) + r(:, 3))) &
                              * cos(pi * floor(3 * r(:, 4)) * at(3)))
        end do
      end do
    end do
  end subroutine

  function coarsened() result(mean)
    real(c_double) :: mean(m(1), m(2), m(3)), x(m(1), 2 * m(2), 2 * m(3))
    x = (fine(1:2*m(1):2, 1:2*m(2), 1:2*m(3)) + fine(2:2*m(1):2, 1:2*m(2), 1:2*m(3))) / 8
    mean = x(:, 1::2, 1::2) + x(:, 2::2, 1::2) + x(:, 1::2, 2::2) + x(:, 2::2, 2::2)
  end function

  real(c_double) function distance(v)
    real(c_double), intent(in) :: v(0:, 0:, 0:)
    distance = sum((v(1:m(1), 1:m(2), 1:m(3)) - coarsened())**2)
    call MPI_Allreduce(MPI_IN_PLACE, distance, 1, MPI_DOUBLE_PRECISION, MPI_SUM, cart, error)
    distance = sqrt(distance)
  end function

  ! A step of second order of central differences on cells of size h.
  subroutine advance(v, h, time)
    real(c_double), intent(inout) :: v(0:, 0:, 0:)
    real(c_double), intent(in) :: h, time
    real(c_double), dimension(0:size(v, 1)-1, 0:size(v, 2)-1, 0:size(v, 3)-1) :: first, second
    call tendency(v, shape(v) - 2, h, first)
    call tendency(first, shape(v) - 2, h, second)
    v = v + time * first + time**2 / 2 * second
  end subroutine

  subroutine tendency(v, b, h, f)
    integer, intent(in) :: b(3)
    real(c_double), intent(inout) :: v(0:b(1)+1, 0:b(2)+1, 0:b(3)+1)
    real(c_double), intent(in) :: h
    real(c_double), intent(out) :: f(0:b(1)+1, 0:b(2)+1, 0:b(3)+1)
    real(c_double) :: before(3), after(3)
    before = diffusion / h**2 + wind / (2 * h)
    after = diffusion / h**2 - wind / (2 * h)
    call exchange_ghosts(v, b)
    f = 0
    f(1:b(1), 1:b(2), 1:b(3)) = -6 * diffusion / h**2 * v(1:b(1), 1:b(2), 1:b(3)) &
      + before(1) * v(:b(1)-1, 1:b(2), 1:b(3)) + after(1) * v(2:, 1:b(2), 1:b(3)) &
      + before(2) * v(1:b(1), :b(2)-1, 1:b(3)) + after(2) * v(1:b(1), 2:, 1:b(3)) &
      + before(3) * v(1:b(1), 1:b(2), :b(3)-1) + after(3) * v(1:b(1), 1:b(2), 2:)
  end subroutine

  subroutine exchange_ghosts(v, b)
    integer, intent(in) :: b(3)
    real(c_double), intent(inout) :: v(0:b(1)+1, 0:b(2)+1, 0:b(3)+1)
    v(0, :, :) = v(b(1), :, :); v(b(1) + 1, :, :) = v(1, :, :)
    v(:, 0, :) = sent(v(:, b(2), :), neighbours(2), v(:, 1, :), neighbours(1))
    v(:, b(2) + 1, :) = sent(v(:, 1, :), neighbours(1), v(:, b(2), :), neighbours(2))
    v(:, :, 0) = sent(v(:, :, b(3)), neighbours(4), v(:, :, 1), neighbours(3))
    v(:, :, b(3) + 1) = sent(v(:, :, 1), neighbours(3), v(:, :, b(3)), neighbours(4))
  end subroutine

  ! The layer that a neighbour sends, or the wall's, through which nothing flows.
  function sent(layer, to, wall, from) result(got)
    real(c_double), intent(in) :: layer(:, :), wall(:, :)
    integer, intent(in) :: to, from
    real(c_double) :: got(size(layer, 1), size(layer, 2))
    got = wall
    call MPI_Sendrecv(layer, size(layer), MPI_DOUBLE_PRECISION, to, 0, got, size(got), MPI_DOUBLE_PRECISION, from, 0, cart, &
                      MPI_STATUS_IGNORE, error)
  end function
end program

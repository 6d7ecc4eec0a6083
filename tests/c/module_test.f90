! The module's procedures on fields of all kinds and ranks, strided slices of larger fields among them; errors as stat= and errmsg=.
! Prints what is not as expected, and at the end "all tried".
program module_test
  use adjoin
  use, intrinsic :: iso_c_binding, only: c_double, c_float, c_int64_t
  implicit none
  real(c_float), target :: r1(-1:8), r2(-1:8, 4), r3(2, -1:8, 3)
  real(c_double), target :: d1(6), d2(2, 0:7), d3(6, 1, 3), y(0:7), z(0:7)
  real(c_double), allocatable :: weight(:)
  type(adjoin_world) :: world, part
  type(adjoin_blocks) :: blocks
  type(adjoin_network) :: network
  type(adjoin_pass) :: pass, other
  type(adjoin_samples) :: samples
  character(200) :: told
  character(40) :: name
  integer :: stat, rank, ranks, i, number
  integer(c_int64_t) :: elements
  real(c_double) :: loss
  logical :: trained

  call adjoin_start(world)
  call adjoin_split(part, world, -1)
  call adjoin_split(part, world, 0, key=3)
  call adjoin_rank(part, rank, ranks)
  call expect(rank == 0 .and. ranks == 1, "a part of one rank")
  call adjoin_blocks_of(blocks, part, [6], [2], [5], stat=stat, errmsg=told)
  call expect(stat == 1 .and. index(told, "blocks: 1 cells of the domain are in no block") == 1, "a hole to be found: " // told)
  call adjoin_blocks_of(blocks, part, [6], [1], [6])
  call adjoin_network_of(network, blocks, '{"inputs": 1, "layers": ["relu6"]}', stat=stat, errmsg=told)
  call expect(stat == 1 .and. index(told, 'layer ''0'': "type": expected one of') == 1, "a type to be refused: " // told)
  call adjoin_network_of(network, blocks, '{"inputs": 1, "layers": [{"type": "linear", "out": 1}]}', double=.true.)
  call adjoin_write(network, 1, [2d0])
  call adjoin_write(network, 2, [1d0])

  do i = 1, 6                                                     ! each has the cells 1 to 6, and others around them
    r1(i) = i
    r2(i, 3) = i
    r3(2, i, 2) = i
    d1(i) = i
    d2(2, i) = i
    d3(i, 1, 2) = i
  end do
  call try(adjoin_of(r1(1:6)), "real32, rank 1")
  call try(adjoin_of(r2(1:6, 3)), "real32, a column")
  call try(adjoin_of(r2(1:6, 3:3), channel_dim=2), "real32, rank 2, with a channel")
  call try(adjoin_of(r3(2, 1:6, 2)), "real32, a strided row")
  call try(adjoin_of(r3(2:2, 1:6, 2:2), channel_dim=1, batch_dim=3), "real32, rank 3, with a channel and a sample")
  call try(adjoin_of(d1), "real64, rank 1")
  call try(adjoin_of(d2(2, 1:6)), "real64, a strided row")
  call try(adjoin_of(d3(:, :, 2:2), channel_dim=2, batch_dim=3), "real64, rank 3")
  call try(adjoin_of(reshape(d1, [6, 1, 1, 1], order=[1, 2, 3, 4])), "", stat)
  call expect(stat == 1, "dims that are neither channels nor samples to be refused")

  call adjoin_infer(network, [adjoin_of(d1)], [adjoin_of(d1)])   ! in place
  call expect(all(d1 == 2 * [1, 2, 3, 4, 5, 6] + 1), "outputs over the inputs")
  call adjoin_optimizer(network, '{"rule": "sgd", "rate": 0.1}')
  call adjoin_forward(pass, network, [adjoin_of(r1(1:6))], input_gradients=.true.)
  call adjoin_forward(other, network, [adjoin_of(d1)])
  call adjoin_loss(pass, "mse", [adjoin_of(r1(1:6))], weights=adjoin_of(r1(1:6)), value=loss)
  call expect(abs(loss - 644d0 / 21) < 1d-12, "the weighted mean of (x + 1)**2")
  call adjoin_backward(pass, input_gradients=[adjoin_of(y(1:6))])
  call expect(all(abs(y(1:6) - [(4d0 * i * (i + 1) / 21, i = 1, 6)]) < 1d-12), "gradients of the inputs")
  call adjoin_free(other)
  call adjoin_backward(pass, stat=stat, errmsg=told)
  call expect(stat == 1 .and. told == "expected a pass, got no handle (0)", "one backward a pass: " // told)
  call adjoin_step(network, norm=loss)
  call adjoin_parameters(network, number)
  call adjoin_parameter(network, 1, name, elements, trained)
  call expect(number == 2 .and. name == "0.weight" .and. elements == 1 .and. trained, "the names of weights")
  allocate(weight(elements))
  call adjoin_read(network, 1, weight)
  call expect(abs(weight(1) - (2 - 0.1d0 * 2 * 532 / 21)) < 1d-12, "a step of sgd")
  call adjoin_samples_of(samples, network, 2)
  call adjoin_add(samples, [adjoin_of(r1(1:6))], [adjoin_of(d1)])
  call adjoin_draw(pass, samples, 1, "mae", value=loss)
  call adjoin_load(network, "/nowhere/at/all", stat=stat, errmsg=told)
  call expect(stat /= 0 .and. index(told, "/nowhere/at/all") > 0, "a file to be missed: " // told)
  call adjoin_free(network, stat=stat, errmsg=told)
  call expect(stat == 1 .and. index(told, "a network cannot be freed while 2 of what was made on it live") > 0, told)
  call adjoin_free(pass); call adjoin_free(samples); call adjoin_free(network); call adjoin_free(blocks)
  call adjoin_free(part); call adjoin_free(world)
  print '(a)', "all tried"

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (.not. holds) print '(2a)', "expected ", trim(what)
  end subroutine

  ! The network makes 2 x + 1 of the cells 1 to 6, and writes nothing around them.
  subroutine try(field, what, stat)
    type(adjoin_array), intent(in) :: field
    character(*), intent(in) :: what
    integer, intent(out), optional :: stat
    z = -1
    call adjoin_infer(network, [field], [adjoin_of(z(1:6))], stat=stat)
    if (present(stat)) return
    call expect(all(z(1:6) == 2 * [1, 2, 3, 4, 5, 6] + 1) .and. z(0) == -1 .and. z(7) == -1, what)
  end subroutine
end program

module onced

go 1.26.8

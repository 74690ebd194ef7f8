module github.com/reintento/reintento/examples

go 1.26

require github.com/reintento/reintento v0.0.0

replace github.com/reintento/reintento => ../

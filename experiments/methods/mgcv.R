# Told by lines on standard input: "hello", "fit K,K,... BASIS FORM", "predict"; one line of JSON
# answers each. Numbers are raw doubles in the folder named on the command line.
suppressPackageStartupMessages(library(mgcv))

folder <- commandArgs(trailingOnly = TRUE)[1]
path <- function(name) file.path(folder, name)
doubles <- function(name) readBin(path(name), "double", file.size(path(name)) / 8, endian = "little")
peak <- function() {
  if (!file.exists("/proc/self/status")) return(NA)
  line <- grep("^VmHWM", readLines("/proc/self/status"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}
answer <- function(...) cat(sprintf(...), "\n", sep = "")
before <- peak()

frame <- function(name, dim) {
  x <- matrix(doubles(name), ncol = dim)
  as.data.frame(structure(x, dimnames = list(NULL, paste0("x", seq_len(dim)))))
}

fit <- function(k, basis, form) {
  inputs <- paste0("x", seq_along(k))
  if (form == "sum") {
    text <- paste("y ~", paste(sprintf("s(%s, bs = '%s', k = %d)", inputs, basis, k),
                               collapse = " + "))
  } else {
    smooth <- if (length(k) == 1) "s" else "te"
    text <- sprintf("y ~ %s(%s, bs = '%s', k = c(%s))", smooth, paste(inputs, collapse = ", "),
                    basis, paste(k, collapse = ", "))
  }
  data <- frame("x", length(k))
  data$y <- doubles("y")
  bins <- if (max(k) > 250) 4 * max(k) else TRUE  # TRUE is 1,000 a covariate at most
  model <<- bam(as.formula(text), data = data, method = "fREML", discrete = bins)
  answer('{"formula": "%s", "edf": %.6g, "noise": %.6g, "mgcv": "%s"}',
         text, sum(model$edf), model$sig2, packageVersion("mgcv"))
}

foretell <- function() {
  new <- frame("test", length(grep("^x", names(model$model))))
  found <- predict(model, new, se.fit = TRUE, discrete = FALSE)
  writeBin(c(found$fit, sqrt(found$se.fit^2 + model$sig2)), path("answer"), endian = "little")
  answer('{"memory_mib": %.1f}', peak() - before)
}

input <- file("stdin", "r")
while (length(line <- readLines(input, 1)) > 0) {
  words <- strsplit(line, " ")[[1]]
  if (words[1] == "hello") answer('{"ready": 1}')
  if (words[1] == "fit") fit(as.integer(strsplit(words[2], ",")[[1]]), words[3], words[4])
  if (words[1] == "predict") foretell()
}

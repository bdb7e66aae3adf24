/** Room `worker`. */
export {}

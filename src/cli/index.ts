/** Room `cli`. */
export {}

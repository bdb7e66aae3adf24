/** Room `wire`. */
export {}

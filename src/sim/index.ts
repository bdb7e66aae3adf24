/** Room `sim`. */
export {}

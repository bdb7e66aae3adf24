/** Room `host`. */
export {}

/** Room `api`. */
export {}

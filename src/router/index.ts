/** Room `router`. */
export {}

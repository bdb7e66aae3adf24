/** Room `engine/testing`. */
export {}

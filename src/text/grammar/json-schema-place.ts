/** Where in a schema its reader is: for refusals, and against nesting without end. */
import { invalidSchema } from './grammar-refusal.ts'

const DEPTH_MAX = 64

export class SchemaPlace {
  /** Stays as it was when something is refused. */
  readonly path: string[] = []

  inside<T>(part: string, read: () => T): T {
    this.path.push(part)
    if (this.path.length > DEPTH_MAX) {
      throw invalidSchema(`it is nested deeper than ${DEPTH_MAX} levels`)
    }
    const result = read()
    this.path.pop()
    return result
  }
}

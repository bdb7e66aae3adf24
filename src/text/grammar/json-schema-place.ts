/** The current location within a schema, for error messages and to limit nesting. */
import { schemaTooLarge } from '../gbnf/grammar-refusal.ts'

const DEPTH_MAX = 64

export class SchemaPlace {
  /** Not reset when an error is thrown, so that it shows where. */
  readonly path: string[] = []

  inside<T>(part: string, read: () => T): T {
    this.path.push(part)
    if (this.path.length > DEPTH_MAX) {
      throw schemaTooLarge(`it is nested deeper than ${DEPTH_MAX} levels`)
    }
    const result = read()
    this.path.pop()
    return result
  }
}

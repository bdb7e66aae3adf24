/** A JSON schema as GBNF; written in a moment. */
import { BatonError } from '../../../base/index.ts'

export function jsonSchemaToGbnf(_schema: unknown): string {
  throw new BatonError('request.unsupported_parameter', 'json_schema is not supported yet')
}

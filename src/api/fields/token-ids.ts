/**
 * Lists of token ids, checked in one loop: a body may have millions of them, and the schema library takes half a
 * microsecond for each, while other requests wait.
 */
import { z } from 'zod'
import { isU32 } from '../../base/index.ts'

const TOKEN_ID_MAX = 0xffffffff

function isTokenIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every(isU32)
}

/** At least one id. */
export const tokenIdsSchema = z
  .custom<number[]>(isTokenIds, 'must be a list of at least one token id')
  .meta({
    type: 'array',
    minItems: 1,
    items: { type: 'integer', minimum: 0, maximum: TOKEN_ID_MAX },
  })

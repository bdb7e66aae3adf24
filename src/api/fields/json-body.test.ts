import { describe, expect, it } from 'vitest'
import { refusal } from '../../../test/api/refusal.ts'
import { loggedMessage } from '../../base/index.ts'
import { readJsonObject } from './json-body.ts'

describe('the log of a refused body', () => {
  it.each([
    '{"prompt":"a secret"}}',
    '{"prompt":"a secret',
    '{"prompt":"a secret" "x"}',
    '"a secret',
    'a secret',
    '{"prompt":"\\xa secret"}',
    `${'{"a":"a secret"}'.repeat(99)}`,
  ])('a body that is not JSON, %s - contains nothing of it', (body) => {
    const error = refusal(() => readJsonObject(new TextEncoder().encode(body), undefined))
    expect(error).not.toBeNull()
    if (error !== null) expect(loggedMessage(error)).not.toContain('secret')
  })
})

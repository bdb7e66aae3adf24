import { describe, expect, it } from 'vitest'
import type { HttpHead } from './http-exchange.ts'
import { RouteTable } from './route-table.ts'
import type { Route } from './route.ts'

const route = (method: Route['method'], path: string): Route => ({
  method,
  path,
  access: 'client',
  body: 'none',
  form: 'openai',
  handle: () => ({ status: 200, headers: {}, body: '' }),
})
const GET = route('GET', '/a')
const POST = route('POST', '/a')
const NAMED = route('GET', '/a/{name}')
const DELETE = route('DELETE', '/a/{name}')
const table = new RouteTable([GET, POST, NAMED, DELETE])

const head = (method: string, path: string): HttpHead => ({
  method,
  path,
  query: '',
  headers: {},
  signal: new AbortController().signal,
})

describe('RouteTable', () => {
  it('a path - by its method; HEAD is a GET without a body', () => {
    expect(table.find(head('GET', '/a'))).toEqual({ route: GET, name: '' })
    expect(table.find(head('POST', '/a')).route).toBe(POST)
    expect(table.find(head('HEAD', '/a')).route).toBe(GET)
  })

  it('a name - is all that is left, decoded, and as it stands when it cannot be', () => {
    expect(table.find(head('GET', '/a/b/c%20d'))).toEqual({ route: NAMED, name: 'b/c d' })
    expect(table.find(head('DELETE', '/a/%ff'))).toEqual({ route: DELETE, name: '%ff' })
  })

  it('nothing there - 404; an empty name is no name', () => {
    for (const path of ['/b', '/a/', '', '/', '/A']) {
      expect(() => table.find(head('GET', path))).toThrow('Route not found')
    }
    expect(table.methodsOf('/b')).toEqual([])
  })

  it('another method - 405 with those that there are', () => {
    expect(() => table.find(head('PUT', '/a'))).toThrow('only GET, POST')
    expect(table.methodsOf('/a/x')).toEqual(['GET', 'DELETE'])
  })

  it('the same method and path twice - is a mistake in the table', () => {
    expect(() => new RouteTable([GET, GET])).toThrow()
  })
})

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
const NAMED = route('GET', '/a/{name...}')
const DELETE = route('DELETE', '/a/{name...}')
const PART = route('POST', '/b/{id}/parts')
const WHOLE = route('GET', '/b/{id}')
const ONE = route('GET', '/b/{id}/parts/{part}')
const table = new RouteTable([GET, POST, NAMED, DELETE, WHOLE, PART, ONE])

const head = (method: string, path: string): HttpHead => ({
  method,
  path,
  query: '',
  headers: {},
  signal: new AbortController().signal,
})

describe('RouteTable', () => {
  it('a path - by its method; HEAD is GET without a body', () => {
    expect(table.find(head('GET', '/a'))).toEqual({ route: GET, names: [] })
    expect(table.find(head('POST', '/a')).route).toBe(POST)
    expect(table.find(head('HEAD', '/a')).route).toBe(GET)
  })

  it('a name with dots - matches the rest of the path, decoded, or unchanged when it cannot be decoded', () => {
    expect(table.find(head('GET', '/a/b/c%20d'))).toEqual({ route: NAMED, names: ['b/c d'] })
    expect(table.find(head('DELETE', '/a/%ff'))).toEqual({ route: DELETE, names: ['%ff'] })
  })

  it('a name - matches one segment, and each path has its own methods', () => {
    expect(table.find(head('GET', '/b/x%2Fy'))).toEqual({ route: WHOLE, names: ['x/y'] })
    expect(table.find(head('POST', '/b/x/parts'))).toEqual({ route: PART, names: ['x'] })
    expect(table.find(head('GET', '/b/x/parts/y'))).toEqual({ route: ONE, names: ['x', 'y'] })
    expect(table.methodsOf('/b/x')).toEqual(['GET', 'HEAD'])
    expect(table.methodsOf('/b/x/parts')).toEqual(['POST'])
    expect(() => table.find(head('POST', '/b/x'))).toThrow('use GET')
    for (const path of ['/b/x/parts/y/z', '/b/x/else', '/b//parts', '/b/x/parts/', '/b/']) {
      expect(() => table.find(head('GET', path))).toThrow('Route not found')
    }
  })

  it('no route - 404; an empty name does not match', () => {
    for (const path of ['/c', '/a/', '', '/', '/A']) {
      expect(() => table.find(head('GET', path))).toThrow('Route not found')
    }
    expect(table.methodsOf('/c')).toEqual([])
  })

  it('another method - 405 with the allowed methods, HEAD wherever GET is served', () => {
    expect(() => table.find(head('PUT', '/a'))).toThrow('use GET, HEAD, POST')
    expect(() => table.find(head('PUT', '/b/x/parts'))).toThrow('use POST')
    expect(table.methodsOf('/a/x')).toEqual(['GET', 'HEAD', 'DELETE'])
  })

  it('the same method and path twice - is an error in the table', () => {
    expect(() => new RouteTable([GET, GET])).toThrow()
  })
})

import { describe, expect, it } from 'vitest'
import { TextQueue } from './text-queue.ts'

const text = (characters: number): { text: string } => ({ text: 'x'.repeat(characters) })

function drained(queue: TextQueue<{ text: string }>): number[] {
  const lengths: number[] = []
  for (let task = queue.take(); task !== undefined; task = queue.take()) {
    lengths.push(task.text.length)
  }
  return lengths
}

describe('TextQueue', () => {
  it('texts that arrive together - the shorter first, equal ones in order of arrival', () => {
    const queue = new TextQueue<{ text: string }>()
    const [first, second] = [text(5000), text(5000)]
    for (const task of [text(9000), first, text(7000), second, text(100)]) queue.add(task, 0)
    expect(queue.size).toBe(5)
    expect(queue.take()?.text.length).toBe(100)
    expect(queue.take()).toBe(first)
    expect(queue.take()).toBe(second)
    expect(drained(queue)).toEqual([7000, 9000])
    expect(queue.take()).toBeUndefined()
  })

  it('a long text - is overtaken no longer than the time for its length', () => {
    const queue = new TextQueue<{ text: string }>()
    queue.add(text(100_000), 0)
    queue.add(text(1000), 197)
    queue.add(text(1001), 198)
    queue.add(text(1002), 199)
    expect(drained(queue)).toEqual([1000, 100_000, 1001, 1002])
  })
})

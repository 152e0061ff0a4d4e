import { describe, expect, it } from 'vitest';
import { parseRowV1 } from '../../src/schemas/messages-v1.ts';

const DEEP = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
const row = (more: string) => `{"uid":"a","format_version":"v1","messages":[{"role":"user","content":"q"}],${more}}`;

describe('parseRowV1', () => {
  it.each([
    ['in a list of messages', row(`"messages":${DEEP}`), 'messages'],
    ['in messages as text', row(`"messages":${JSON.stringify(DEEP)}`), 'messages'],
    ['in a content', row(`"messages":[{"role":"user","content":${DEEP}}]`), 'messages'],
    ['in a key that it does not know', row(`"messages":${JSON.stringify(`[{"role":"user","content":"q","more":${DEEP}}]`)}`), 'messages'],
    ['in another column', row(`"extra":${DEEP}`), 'extra'],
    ['in the uid', row(`"uid":${DEEP}`), 'uid'],
  ])('names the key of a row that is nested very deeply %s', (_, text, key) => {
    expect(parseRowV1(JSON.parse(text) as object as Record<string, unknown>)).toBe(`"${key}" is nested more than 64 levels deep; give flatter rows`);
  });

  it('takes messages as a list and as text', () => {
    const messages = [{ role: 'user', content: [{ image: 'a.png' }] }];
    expect(parseRowV1({ uid: 'a', format_version: 'v1', messages })).toEqual({ uid: 'a', messages });
    expect(parseRowV1({ uid: 'a', format_version: 'v1', messages: JSON.stringify(messages) })).toEqual({ uid: 'a', messages });
  });
});

import { describe, expect, it } from 'vitest';
import { shownWords } from '../../../../src/cli/rounds/run/shown-words.ts';

describe('shownWords', () => {
  it('leaves out passwords in URLs and values under secret names, and nothing else', () => {
    const given = JSON.stringify({ search_url: 'http://ada:hunter22@host:5002/search?token=abcdef', api_key: 'sk-12345', topk: 3 });
    expect(shownWords(['visual-rag', '-b', 'http://ada:hunter22@host/v1', '-a', given, '--set', 'roles.judge.api_key=sk-12345', '{torn'])).toEqual([
      'visual-rag',
      '-b',
      'http://***@host/v1',
      '-a',
      JSON.stringify({ search_url: 'http://***@host:5002/search?token=***', api_key: '***', topk: 3 }),
      '--set',
      'roles.judge.api_key=***',
      '{torn',
    ]);
  });
});

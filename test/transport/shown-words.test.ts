import { describe, expect, it } from 'vitest';
import { shellCommand } from '../../src/reports/text/own-command.ts';
import { redactUrl } from '../../src/transport/redact.ts';
import { shownWords } from '../../src/transport/shown-words.ts';

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

  it.each([
    ['a header', ['--header', 'Authorization: Bearer abcdef'], ['--header', 'Authorization: ***']],
    ['a header in one word', ['--header=X-Api-Key: abcdef'], ['--header=X-Api-Key: ***']],
    ['a harmless header', ['--header', 'X-Run: abcdef'], ['--header', 'X-Run: abcdef']],
    ['a setting in one word', ['--set=roles.judge.api_key=abcdef'], ['--set=roles.judge.api_key=***']],
    ['arguments in one word', ['--env-args={"api_key":"abcdef"}'], ['--env-args={"api_key":"***"}']],
    ['a secret flag', ['--hub-token', 'abcdef', '--max-tokens', '5'], ['--hub-token', '***', '--max-tokens', '5']],
    ['the name of a variable', ['--api-key-var', 'MY_KEY'], ['--api-key-var', 'MY_KEY']],
  ])('shows %s without its secret', (_, words, shown) => expect(shownWords(words)).toEqual(shown));

  it('gives a command whose quotes survive the redaction of the line that holds it', () => {
    const words = [
      '--role',
      'judge=m@http://a:pass1@host/v1?token=abcdef',
      '-a',
      '{"url":"http://host/search?api_key=abcdef","topk":3}',
      '-o',
      'out',
    ];
    const line = `The step was: ${shellCommand(shownWords(words))}`;
    expect(redactUrl(line)).toBe(line);
    expect(line).toBe(`The step was: --role 'judge=m@http://***@host/v1?token=***' -a '{"url":"http://host/search?api_key=***","topk":3}' -o out`);
  });
});

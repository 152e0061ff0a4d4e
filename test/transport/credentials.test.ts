import { describe, expect, test } from 'vitest';
import { headerCredentials, settingCredentials, urlCredentials, variableCredentials, wordCredentials } from '../../src/transport/credentials.ts';

describe('headerCredentials', () => {
  test('takes a credential with and without its scheme, and long values under any name', () => {
    const headers = { authorization: 'Bearer 0123456789', 'x-key': 'short', 'x-team': 'search', 'x-odd': 'a value that is long' };
    expect(headerCredentials(headers)).toEqual(['Bearer 0123456789', '0123456789', 'short', 'a value that is long']);
  });

  test('takes no placeholder: hiding the word would shred ordinary text', () => {
    expect(headerCredentials({ authorization: 'Bearer EMPTY', 'x-token': 'token' })).toEqual([]);
  });
});

describe('urlCredentials', () => {
  test('takes password, pair and secret parameters, decoded', () => {
    const pair = Buffer.from('me:p@ss').toString('base64');
    expect(urlCredentials('http://me:p%40ss@h/?api_key=k1&topk=3')).toEqual(['p@ss', pair, 'k1']);
    expect(urlCredentials('http://a-long-token@h/')).toEqual(['a-long-token']);
    expect(urlCredentials('http://h/')).toEqual([]);
    expect(urlCredentials('no url')).toEqual([]);
  });
});

describe('wordCredentials', () => {
  test.each([
    [['--token=sk-12345678'], ['sk-12345678']],
    [['--password', 'hunter2hunter2'], ['hunter2hunter2']],
    [
      ['--header', 'Authorization: Bearer abcdefgh'],
      ['Bearer abcdefgh', 'abcdefgh'],
    ],
    [['--header=X-Api-Key:abcdefgh'], ['abcdefgh']],
    [['-e', 'WIKI_KEY=abcdefgh', '-e', 'LANGUAGE=en_GB.UTF-8'], ['abcdefgh']],
    [['{"api_key":"abcdefgh","topk":3}'], ['abcdefgh']],
    [['http://me:secret12@host/'], ['secret12', Buffer.from('me:secret12').toString('base64')]],
    [['--token', '--verbose', '--max-tokens=12345678', '--api-key', 'EMPTY', 'pages/of/wiki'], []],
  ])('%j', (words, secrets) => {
    expect([...new Set(wordCredentials(words))]).toEqual(expect.arrayContaining(secrets));
    expect(wordCredentials(words).filter((word) => !secrets.includes(word))).toEqual([]);
  });
});

describe('variableCredentials', () => {
  test('takes every value that may be a secret, and no short word', () => {
    const variables = { WIKI_LOGIN: 'hunter2hunter2', DB_PASSWORD: 'abc12', LANG: 'C', DEBUG: 'true', API_KEY: 'EMPTY' };
    expect(variableCredentials(variables)).toEqual(['hunter2hunter2', 'abc12']);
    expect(settingCredentials(variables)).toEqual([]);
  });
});

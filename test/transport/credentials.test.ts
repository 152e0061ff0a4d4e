import { describe, expect, test } from 'vitest';
import { headerCredentials, urlCredentials } from '../../src/transport/credentials.ts';

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

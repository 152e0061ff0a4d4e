import { describe, expect, it } from 'vitest';
import { ResponseStore } from '../../../src/agents/dialects/response-store.ts';

const BODY = { input: 'x' };

function answerOf(id: number, text = ''): { readonly id: string; readonly output: readonly object[] } {
  return { id: `resp_${id}`, output: [{ id: `msg_${id}`, type: 'message', content: text }] };
}

describe('ResponseStore', () => {
  it('counts what was answered, not only what was asked', () => {
    const store = new ResponseStore(1000);
    for (let i = 0; i < 10; i++) store.keep(BODY, answerOf(i, 'y'.repeat(250)), 10);
    expect([0, 6, 7, 8, 9].map((i) => store.response(`resp_${i}`) !== undefined)).toEqual([false, false, true, true, true]);
  });

  it('forgets the items that were not named for longest, and keeps them longer than the requests behind them', () => {
    const store = new ResponseStore(1000);
    store.keep(BODY, answerOf(0), 10);
    store.keep(BODY, answerOf(1), 10);
    store.keep({ input: 'z' }, answerOf(2), 5000);
    expect([store.response('resp_0'), store.item('msg_0')]).toEqual([undefined, answerOf(0).output[0]]);
    for (let i = 3; i < 6; i++) store.keep(BODY, answerOf(i, 'y'.repeat(250)), 10);
    expect([store.item('msg_0') === undefined, store.item('msg_1') === undefined]).toEqual([false, true]);
  });

  it('keeps the last answer, however long it is', () => {
    const store = new ResponseStore(100);
    store.keep(BODY, answerOf(0, 'y'.repeat(500)), 10);
    expect(store.response('resp_0')).toEqual([{ role: 'user', content: 'x' }, ...answerOf(0, 'y'.repeat(500)).output]);
  });
});

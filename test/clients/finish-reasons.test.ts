import { describe, expect, it } from 'vitest';
import { endedByItself, finishKind } from '../../src/clients/finish-reasons.ts';

describe('finishKind', () => {
  it.each([
    [
      'stop',
      [
        'stop',
        'STOP',
        'FINISH_REASON_STOP',
        'eos',
        'eos_token',
        'end_turn',
        'end-turn',
        'stop_sequence',
        'tool_calls',
        'tool_use',
        'function_call',
        'COMPLETE',
        'normal',
        'endoftext',
        'stopSequence',
        'eosFound',
        'toolUse',
      ],
    ],
    [
      'length',
      [
        'length',
        'maxTokens',
        'Max Tokens',
        'contextLengthReached',
        'max_tokens',
        'MAX_TOKENS',
        'FinishReason.MAX_TOKENS',
        'model_length',
        'model_context_window_exceeded',
      ],
    ],
    ['filtered', ['content_filter', 'content_filtered', 'SAFETY', 'sensitive', 'refusal', 'RECITATION', 'guardrail_intervened']],
    [
      'unfinished',
      ['abort', 'error', 'network_error', 'insufficient_system_resource', 'repetition', 'pause_turn', 'OTHER', 'null', '', null, undefined, 7],
    ],
  ] as const)('is %s', (kind, reasons) => {
    for (const reason of reasons) expect([reason, finishKind(reason)]).toEqual([reason, kind]);
  });
});

describe('endedByItself', () => {
  it('is true of reasons that rule out a stop string', () => {
    expect(['end_turn', 'eos_token', 'tool_calls'].map(endedByItself)).toEqual([true, true, true]);
    expect(['stop', 'stop_sequence', 'length', null].map(endedByItself)).toEqual([false, false, false, false]);
  });
});

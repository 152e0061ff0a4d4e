import { describe, expect, it } from 'vitest';
import { evaluationRequest, FLAG_NAMES } from '../../../src/cli/eval/evaluation-request.ts';
import type { Settings } from '../../../src/cli/eval/eval-options.ts';
import { overTable, readSampling as readRequest, samplingFor } from '../../../src/sessions/policy/sampling.ts';

const readSampling = (settings: Settings) => readRequest(evaluationRequest({ name: null, envId: 'capitals', settings }), FLAG_NAMES);

const TOKENS = { kind: 'tokens', maxModelLen: null, tokenizerHash: null, logProbsMode: 'raw' } as const;
const API = { ...TOKENS, kind: 'chat', logProbsMode: 'none', leavesOut: true } as const;

describe('readSampling', () => {
  it('leaves temperature and top_p to a chat API unless they are set', () => {
    expect(readSampling({})).toEqual({ sampling: { temperature: null, topP: null }, maxTokens: null });
    expect(samplingFor(readSampling({}), API, FLAG_NAMES)).toEqual(readSampling({}));
  });

  it('sends temperature 1 and top_p 1 by token ids', () => {
    expect(samplingFor(readSampling({}), TOKENS, FLAG_NAMES)).toEqual({ sampling: { temperature: 1, topP: 1 }, maxTokens: null });
  });

  it('leaves out what is null, for a chat API alone', () => {
    const read = readSampling({ temperature: 0.5, topP: 0.9, maxTokens: 20, samplingArgs: { top_p: null, stop: null, seed: null, top_k: null } });
    expect(read).toEqual({ sampling: { temperature: 0.5, topP: null, leaveOut: ['top_p', 'stop', 'seed', 'top_k'] }, maxTokens: 20 });
    expect(samplingFor(read, API, FLAG_NAMES)).toEqual(read);
    expect(() => samplingFor(read, TOKENS, FLAG_NAMES)).toThrow(/^-S cannot leave out top_p, stop, seed, top_k: only a chat API/);
  });

  it('lets -S win over -t and -T, and lifts what is under extra_body', () => {
    const settings = {
      temperature: 0.3,
      maxTokens: 10,
      samplingArgs: { temperature: 0, max_tokens: 20, min_p: 0.1, top_a: 0.2, extra_body: { top_k: 5 } },
    };
    expect(readSampling(settings)).toEqual({ sampling: { temperature: 0, topP: null, extra: { top_k: 5, min_p: 0.1, top_a: 0.2 } }, maxTokens: 20 });
  });

  it('lets -S win over --top-p', () => {
    expect(readSampling({ topP: 0.9 }).sampling).toEqual({ temperature: null, topP: 0.9 });
    expect(readSampling({ topP: 0.9, samplingArgs: { top_p: 0.5 } }).sampling).toEqual({ temperature: null, topP: 0.5 });
  });

  it('sends the limit under the name it was given, and to a policy of tokens under the only one there is', () => {
    const read = readSampling({ samplingArgs: { max_completion_tokens: 500, top_k: 5 } });
    expect(read).toEqual({ sampling: { temperature: null, topP: null, extra: { top_k: 5, max_completion_tokens: 500 } }, maxTokens: 500 });
    expect(samplingFor(read, TOKENS, FLAG_NAMES)).toEqual({ sampling: { temperature: 1, topP: 1, extra: { top_k: 5 } }, maxTokens: 500 });
  });

  it('shows no secret of a value that it refuses', () => {
    const args = { extra_body: [{ api_key: 'hunter2' }] };
    expect(() => readSampling({ samplingArgs: args })).toThrow(/^(?!.*hunter2).*\*\*\*/);
  });

  it.each([
    [{ max_tokens: 1, max_completion_tokens: 2 }, /two names of one limit/],
    [{ temprature: 1 }, /^-S has no "temprature"; did you mean temperature\?$/],
    [{ n: 4 }, /-S cannot set "n": use -r/],
    [{ seed: 1 }, /-S cannot set "seed": use --seed/],
    [{ detokenize: false }, /-S cannot set "detokenize": text and token ids/],
    [{ extra_body: { seed: 1 } }, /-S cannot set "seed"/],
    [{ temperature: -1 }, /^temperature in -S must be a number from 0 to 100, got -1/],
    [{ temperature: Infinity }, /^temperature in -S must be a number from 0 to 100, got Infinity/],
    [{ top_p: 1.01 }, /^top_p in -S must be/],
    [{ top_p: NaN }, /^top_p in -S must be .*, got NaN/],
    [{ min_p: NaN }, /^min_p in -S must be a number from 0 to 1, got NaN/],
    [{ top_a: NaN }, /^top_a in -S must be a finite number, got NaN/],
    [{ top_k: 1.5 }, /^top_k in -S must be an integer of at least -1, got 1.5/],
    [{ max_completion_tokens: 1.5 }, /^max_completion_tokens in -S must be an integer of at least 1, got 1.5/],
    [{ presence_penalty: 3 }, /^presence_penalty in -S must be a number from -2 to 2, got 3/],
    [{ messages: null }, /-S cannot set "messages"/],
    [{ stop: ['x'] }, /-S cannot set "stop"/],
    [{ extra_body: { model: 'x' } }, /-S cannot set "model"/],
    [{ temperature: 'hot' }, /^temperature in -S must be a number from 0 to 100, got "hot"/],
    [{ top_p: 0 }, /^top_p in -S must be/],
    [{ max_tokens: 0 }, /^max_tokens in -S must be/],
    [{ extra_body: 3 }, /^extra_body in -S must be/],
    [{ temperature: 0.5, extra_body: { temperature: 0.3 } }, /^-S has "temperature" twice/],
    [{ stream: true }, /^-S cannot set "stream": use --stream$/],
  ])('refuses %j', (args, message) => {
    expect(() => readSampling({ samplingArgs: args })).toThrow(message);
  });
});

describe('overTable()', () => {
  it('puts the settings of an evaluation over the fields of its alias', () => {
    const alias = { sampling: { temperature: 0.6, top_p: 'unset', top_k: 20 }, reasoning_effort: 'low', max_tokens: 900 };
    expect(overTable({}, alias)).toEqual({ sampling: { temperature: 0.6, top_p: null, top_k: 20, reasoning_effort: 'low', max_tokens: 900 } });
    expect(overTable({ temperature: 0, topP: 1, maxTokens: 7, sampling: { top_k: 5 } }, alias)).toEqual({
      temperature: 0,
      topP: 1,
      maxTokens: 7,
      sampling: { top_k: 5, reasoning_effort: 'low' },
    });
    const plain = { temperature: 0 };
    expect(overTable(plain)).toBe(plain);
  });
});

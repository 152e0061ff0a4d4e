import { describe, expect, it } from 'vitest';
import { schemaCheck } from '../../../src/schemas/schema-check.ts';
import { type JsonSampleResponse, sampleRequestSchema, sampleResponseSchema } from '../../../src/schemas/tinker/samples.ts';
import { decodeSamples, encodeSamples, NO_LOG_PROB, type Samples, samplesJson, samplesOf } from '../../../src/tinker/wire/samples.ts';
import { floatRow } from '../../../src/tinker/wire/wire-tensor.ts';
import { bytesIn, recorded, withResults } from './recorded-exchanges.ts';

const inProtobuf = withResults(recorded('sdk-0.38.0'), 'asample');
const inJson = withResults(recorded('sdk-0.24.1-skyrl-0.3.0'), 'asample');

const samples: Samples = {
  sequences: [
    {
      stopReason: 'length',
      tokens: Int32Array.of(5, 6),
      logProbs: Float32Array.of(-0.5, -1),
      likeliest: { k: 2, ids: Int32Array.of(5, 7, 6, 0), logProbs: Float32Array.of(-0.5, -2, -1, NO_LOG_PROB) },
    },
    { stopReason: 'stop', tokens: new Int32Array(0), logProbs: new Float32Array(0), likeliest: null },
  ],
  promptLogProbs: Float32Array.of(NaN, -3),
  promptLikeliest: { k: 1, ids: Int32Array.of(0, 9), logProbs: Float32Array.of(NO_LOG_PROB, -1.5) },
  targetLogProbs: floatRow(Float32Array.of(-4)),
  cachedTokens: 3,
};

describe('encodeSamples and decodeSamples', () => {
  it('say what the SDK read, byte for byte', () => {
    expect(inProtobuf).toHaveLength(5);
    for (const { request, result } of inProtobuf) {
      expect(schemaCheck(sampleRequestSchema)(request.json!)).toBe(true);
      const bytes = bytesIn(result);
      expect(encodeSamples(decodeSamples(bytes))).toEqual(bytes);
    }
    const [two, one] = inProtobuf.map(({ result }) => decodeSamples(bytesIn(result)));
    expect(two!.sequences.map(({ tokens }) => tokens.length)).toEqual([8, 8]);
    expect(one!.promptLogProbs![0]).toBeNaN();
    expect(one!.sequences[0]!.stopReason).toBe('length');
  });

  it('are each other’s inverse', () => {
    expect(decodeSamples(encodeSamples(samples))).toEqual(samples);
  });

  it('give a prompt a value per token, and refuse another number of them', () => {
    const bytes = encodeSamples({ ...samples, promptLogProbs: Float32Array.of(-1, -2) });
    expect(decodeSamples(bytes, 2).promptLogProbs).toEqual(Float32Array.of(-1, -2));
    expect(decodeSamples(bytes, 3).promptLogProbs).toEqual(Float32Array.of(NaN, -1, -2));
    expect(() => decodeSamples(bytes, 4)).toThrow('prompt_logprobs has 2 values for a prompt of 4 tokens.');
  });

  it('refuse a sequence whose log-probs are not one per token, and likeliest tokens of another shape', () => {
    const [first] = samples.sequences;
    const broken = (changed: object) => encodeSamples({ ...samples, sequences: [{ ...first!, ...changed }] });
    expect(() => decodeSamples(broken({ logProbs: Float32Array.of(-1) }))).toThrow('sequences[0] has 2 tokens and 1 log-probs.');
    expect(() => decodeSamples(broken({ likeliest: { k: 2, ids: Int32Array.of(1, 2), logProbs: new Float32Array(4) } }))).toThrow(
      'do not fit their shape',
    );
    expect(() => decodeSamples(Uint8Array.of(0x0a, 0x02, 0x08, 0x07))).toThrow('sequences[0].stop_reason is 7');
  });
});

describe('samplesOf', () => {
  it('reads what SkyRL gives, and adds the first token that it leaves out of the prompt', () => {
    expect(inJson).toHaveLength(5);
    for (const { request, result } of inJson) {
      expect(schemaCheck(sampleRequestSchema)(request.json!)).toBe(true);
      expect(schemaCheck(sampleResponseSchema)(result.json!)).toBe(true);
      const { prompt, prompt_logprobs: wantsPrompt } = request.json as unknown as {
        prompt: { chunks: [{ tokens: number[] }] };
        prompt_logprobs: boolean;
      };
      const { length } = prompt.chunks[0].tokens;
      const read = samplesOf(result.json as unknown as JsonSampleResponse, length);
      const absent = wantsPrompt ? Array.from({ length }, (_, i) => i === 0) : null;
      expect(read.promptLogProbs === null ? null : [...read.promptLogProbs].map(Number.isNaN)).toEqual(absent);
    }
  });

  it('refuses log-probs of another prompt', () => {
    const { result } = inJson.find(({ request }) => request.json!['prompt_logprobs'] === true)!;
    expect(() => samplesOf(result.json as unknown as JsonSampleResponse, 100)).toThrow('prompt_logprobs has');
  });

  it('reads what samplesJson writes, but for what only newer clients ask', () => {
    const written = JSON.parse(JSON.stringify(samplesJson(samples))) as JsonSampleResponse & Record<string, unknown>;
    const sequences = samples.sequences.map((sequence) => ({ ...sequence, likeliest: null }));
    expect(samplesOf(written, 2)).toEqual({ ...samples, sequences, promptLikeliest: null, targetLogProbs: null, cachedTokens: 0 });
    expect(written['topk_prompt_logprobs']).toEqual([null, [[9, -1.5]]]);
  });
});

/** What a vLLM with a vision-language model does on the wire, and the client relies on or must notice. Run over the real server and over its loopback imitation. */
import { beforeAll, describe, expect, it } from 'vitest';
import { paintedPng } from '../images/painted-png.ts';
import { rulesOf, type VlmForm } from '../images/vlm-client.ts';

interface Generation {
  readonly prompt_token_ids: readonly number[];
  readonly mm_placeholders: { readonly image: readonly { readonly offset: number; readonly length: number }[] } | null;
  readonly choices: readonly [
    { readonly text: string; readonly token_ids: readonly number[]; readonly logprobs: { readonly content: readonly { logprob: number }[] } },
  ];
}

interface Failure {
  readonly error: { readonly message: string };
}

interface Part {
  readonly url: string | null;
  readonly uuid?: string;
}

/** `url` with `/v1`. The server takes 16 pictures in a prompt and has a window of 4096 tokens. */
export function imageServerContract(name: string, form: VlmForm, urlOf: () => Promise<string>): void {
  const { unit, start, pad, end } = rulesOf(form);
  /** <|im_start|>, and words. */
  const WORDS = [1587, 343, 268, 198];
  const PICTURE = [start, pad, end];
  const place = (tokens: number) => [start, ...Array.from({ length: tokens }, () => pad), end];
  const dataUrl = (bytes: Uint8Array) => `data:image/png;base64,${Buffer.from(bytes).toString('base64')}`;
  const small = dataUrl(paintedPng(4 * unit, 3 * unit, 1));
  const other = dataUrl(paintedPng(4 * unit, 3 * unit, 2));
  const large = dataUrl(paintedPng(6 * unit, 5 * unit, 3));

  describe(`${name}: pictures on the wire`, () => {
    let root: string;
    beforeAll(async () => {
      root = (await urlOf()).replace(/\/v1$/, '');
    });
    const post = async (path: string, body: object) => {
      const answer = await fetch(`${root}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: form, ...body }),
      });
      return { status: answer.status, answer: await answer.json() };
    };
    const asked = (ids: readonly number[], parts: readonly Part[] = []) =>
      post('/inference/v1/generate', {
        token_ids: ids,
        ...(parts.length === 0 ? {} : { content_parts: parts.map((part) => ({ type: 'image_url', ...part })) }),
        sampling_params: { max_tokens: 3, temperature: 0, logprobs: 0 },
        return_token_ids: true,
        output_mode: 'text',
      });
    const generated = async (ids: readonly number[], parts: readonly Part[] = []): Promise<Generation> => {
      const { status, answer } = await asked(ids, parts);
      expect([status, answer]).toEqual([200, expect.anything()]);
      return answer as Generation;
    };
    const refused = async (ids: readonly number[], parts: readonly Part[] = []) => {
      const { status, answer } = await asked(ids, parts);
      return { status, message: (answer as Failure).error.message };
    };
    const firstLogProb = ({ choices }: Generation) => choices[0].logprobs.content[0]!.logprob;

    it('expands one pad to the tokens of its picture and says where they are', async () => {
      const { prompt_token_ids: ids, mm_placeholders: places } = await generated(
        [...WORDS, ...PICTURE, ...WORDS, ...PICTURE],
        [{ url: small }, { url: large }],
      );
      expect(ids).toEqual([...WORDS, ...place(12), ...WORDS, ...place(30)]);
      expect(places).toEqual({
        image: [
          { offset: 5, length: 12 },
          { offset: 23, length: 30 },
        ],
      });
    });

    it('names no places for text alone', async () => {
      const { prompt_token_ids: ids, mm_placeholders: places } = await generated(WORDS);
      expect([ids, places]).toEqual([WORDS, null]);
    });

    it('counts the tokens of a picture of a message as it counts those of ids', async () => {
      const content = [{ type: 'image_url', image_url: { url: large } }];
      const { answer } = await post('/tokenize', { messages: [{ role: 'user', content }] });
      const { tokens } = answer as { tokens: readonly number[] };
      expect(tokens.filter((id) => id === pad)).toHaveLength(30);
      expect(tokens.slice(tokens.indexOf(start), tokens.indexOf(end) + 1)).toEqual(place(30));
    });

    it('knows a picture by its name afterwards, and no other', async () => {
      const sent = await generated([...WORDS, ...PICTURE], [{ url: small, uuid: `${name} known` }]);
      const named = await generated([...WORDS, ...PICTURE], [{ url: null, uuid: `${name} known` }]);
      expect(named.prompt_token_ids).toEqual(sent.prompt_token_ids);
      expect(firstLogProb(named)).toBeCloseTo(firstLogProb(sent), 4);
      expect(await refused([...WORDS, ...PICTURE], [{ url: null, uuid: `${name} unknown` }])).toEqual({
        status: 400,
        message: expect.stringMatching(/cache miss/i),
      });
    });

    it('believes a known name rather than the bytes: the old picture is used, with status 200', async () => {
      const old = await generated([...WORDS, ...PICTURE], [{ url: small, uuid: `${name} claimed` }]);
      const lie = await generated([...WORDS, ...PICTURE], [{ url: other, uuid: `${name} claimed` }]);
      const honest = await generated([...WORDS, ...PICTURE], [{ url: other }]);
      expect(firstLogProb(lie)).toBeCloseTo(firstLogProb(old), 4);
      expect(Math.abs(firstLogProb(honest) - firstLogProb(old))).toBeGreaterThan(1e-3);
    });

    it('answers 200 to fewer pictures than pads, and leaves the other pads as they are', async () => {
      const { prompt_token_ids: ids, mm_placeholders: places } = await generated([...PICTURE, ...PICTURE], [{ url: small }]);
      expect(ids).toEqual([...place(12), ...PICTURE]);
      expect(places?.image).toHaveLength(1);
      const blind = await generated([...WORDS, ...PICTURE]);
      expect([blind.prompt_token_ids, blind.mm_placeholders]).toEqual([[...WORDS, ...PICTURE], null]);
    });

    it('answers 200 to pads that are expanded already, and expands the first one again', async () => {
      const { prompt_token_ids: ids } = await generated(place(12), [{ url: small }]);
      expect(ids).toEqual(place(23));
    });

    it('refuses more pictures than pads', async () => {
      expect((await refused(PICTURE, [{ url: small }, { url: large }])).status).toBe(500);
    });

    it('refuses 17 pictures of 16, a torn picture, and bytes that are not base64', async () => {
      const many = Array.from({ length: 17 }, () => ({ url: small }));
      expect(
        await refused(
          many.flatMap(() => PICTURE),
          many,
        ),
      ).toEqual({ status: 400, message: expect.stringMatching(/^At most 16 image\(s\)/) });
      const torn = dataUrl(paintedPng(4 * unit, 3 * unit, 4).subarray(0, 20));
      expect(await refused(PICTURE, [{ url: torn }])).toEqual({ status: 400, message: expect.stringMatching(/^Failed to load image/) });
      expect((await refused(PICTURE, [{ url: 'data:image/png;base64,@@@' }])).status).toBe(400);
    });

    it('refuses ids that are longer than the window, before and after pictures took their places', async () => {
      const long = [...PICTURE, ...Array.from({ length: 4200 }, () => 198)];
      expect(await refused(long, [{ url: small }])).toEqual({ status: 400, message: expect.stringMatching(/maximum context length/) });
      const pictures = Array.from({ length: 16 }, () => ({ url: small }));
      const longer = [...pictures.flatMap(() => PICTURE), ...Array.from({ length: 3950 }, () => 198)];
      expect(await refused(longer, pictures)).toEqual({ status: 400, message: expect.stringMatching(/longer than the maximum model length/) });
    });
  });
}

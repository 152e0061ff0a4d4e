/** The committed bases: the files of the manifest, sizes that a real vLLM on a CPU takes, tokenizers that lose nothing. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LIMIT_NOTE, NOTHING_FOUND, reasoningPrompt, REPEATED_NOTE, searchResult } from 'vf-search/environments/search-o1';
import { CORRECTIVE_MESSAGE, makePrefix, observation } from 'vf-search/environments/search-r1';
import { INVALID_ACTION, loadEnvironment, NO_PAGE } from 'vf-search/environments/visual-rag';
import { contentText } from '../../src/core/message.ts';
import { LocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';

const ROOT = path.join(import.meta.dirname, '../..');
const [MODELS, MORE_MODELS] = [path.join(ROOT, 'models'), path.join(ROOT, 'packages/vf-search-models/models')];
const folderOf = (name: string) => path.join(name === 'nano-base' ? MODELS : MORE_MODELS, name);
const CONTROL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];
const PASSAGES = [{ contents: 'Kinzer\nThe mayor of Kinzer is Purorka.' }];
const PAGES = await loadEnvironment({ dataset: 'page-world' });
const PAGE_PROMPT = PAGES.eval.at(0).prompt.map(({ content }) => contentText(content));
await PAGES.close();
/** Single tokens, and texts of the environment, by model. */
const BASES: Record<string, { markers: string[]; texts: string[] }> = {
  'nano-base': {
    markers: ['think', 'search', 'information', 'answer'].flatMap((name) => [`<${name}>`, `</${name}>`]),
    texts: [makePrefix('Who is the mayor of Kinzer?'), CORRECTIVE_MESSAGE, observation(PASSAGES), observation([])],
  },
  'nano-copy': {
    markers: [
      ...['think', 'search', 'information', 'answer'].flatMap((name) => [`<${name}>`, `</${name}>`]),
      // Pieces of tool calls, and the sentences of prompts between their tags.
      '<tools>',
      '</tools>',
      '<tool_call>\n',
      '\n</tool_call>',
      '<tool_response>\n',
      '\n</tool_response>',
      '{"name": "',
      '", "arguments": {"',
      '": "',
      '"}}',
      '(Title: ',
      'Answer the given question. You must conduct reasoning inside ',
      ' first every time you get new information. After reasoning, if you find you lack some knowledge, you can call a search engine by ',
      ' and it will return the top searched results between ',
      '. You can search as many times as your want. If you find no further external knowledge needed, you can directly provide the answer inside ',
      ', without detailed illustrations. For example, ',
      ' Beijing ',
      'My previous action is invalid. If I want to search, I should put the query between ',
      '. If I want to give the final answer, I should put the answer between ',
      '. Let me try again.\n',
      'Look things up with ',
      ' before you answer. End with ',
      ' your answer ',
      ', in a few words.',
    ],
    texts: [
      makePrefix('Who is the mayor of Kinzer?'),
      CORRECTIVE_MESSAGE,
      observation(PASSAGES),
      '<tool_call>\n{"name": "find_note", "arguments": {"query": "Zürich 7"}}\n</tool_call>',
    ],
  },
  'nano-o1': {
    markers: [...['query', 'result'].flatMap((name) => [`<|begin_search_${name}|>`, `<|end_search_${name}|>`]), '\\boxed{', '}'],
    texts: [
      reasoningPrompt('Who is the mayor of Kinzer?'),
      searchResult('The mayor of Kinzer is Purorka.'),
      searchResult(NOTHING_FOUND),
      LIMIT_NOTE,
      REPEATED_NOTE,
    ],
  },
  'nano-coder': {
    markers: ['code', 'input', 'output', 'message', 'think', 'answer'].flatMap((name) => [`<${name}>`, `</${name}>`]),
    texts: [
      "solve o\n<code>def f(a):a=a[::-1];a=a+'3';return a</code><input>'314'</input>",
      "solve f\n<input>'12'</input><output>'21'</output><message>reverse append</message>",
      '{"rationale": "clear steps", "grade": 0.75}',
    ],
  },
  'nano-pages': {
    // The two long texts that the environment always writes alike are tokens, too.
    markers: [
      ...['think', 'search', 'bbox', 'search_complete'].flatMap((name) => [`<${name}>`, `</${name}>`]),
      PAGE_PROMPT[0]!,
      INVALID_ACTION.trimEnd(),
    ],
    texts: [...PAGE_PROMPT, INVALID_ACTION, NO_PAGE, 'Page, 700 x 560 pixels:\n[175, 30, 265, 50] Trafam\n[90, 120, 95, 123] ?'],
  },
};

interface FileEntry {
  path: string;
  bytes: number;
  sha256: string;
}
interface TokenizerJson {
  added_tokens: { id: number; content: string; special: boolean }[];
  model: { vocab: Record<string, number> };
}

const readJson = (name: string, file: string) => JSON.parse(readFileSync(path.join(folderOf(name), file), 'utf8')) as unknown;

describe('models/MANIFEST.json', () => {
  const { models } = JSON.parse(readFileSync(path.join(MODELS, 'MANIFEST.json'), 'utf8')) as {
    models: Record<string, { package?: string; license: string; files: FileEntry[] }>;
  };

  it('describes every file of every base, byte for byte', () => {
    expect(Object.keys(models).toSorted()).toEqual(Object.keys(BASES).toSorted());
    expect(Object.keys(models).toSorted()).toEqual(
      [...readdirSync(MODELS), ...readdirSync(MORE_MODELS)].filter((entry) => entry !== 'MANIFEST.json').toSorted(),
    );
    for (const [name, { package: own, license, files }] of Object.entries(models)) {
      expect(own).toBe(name === 'nano-base' ? undefined : 'vf-search-models');
      expect(license).toBe('Apache-2.0');
      expect(files.map((file) => file.path)).toEqual(
        readdirSync(folderOf(name))
          .toSorted()
          .map((file) => `${name}/${file}`),
      );
      for (const file of files) {
        const content = readFileSync(path.join(folderOf(name), '..', file.path));
        expect(file).toEqual({ path: file.path, bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') });
      }
    }
  });

  it('keeps each base within 5 MB', () => {
    for (const { files } of Object.values(models)) expect(files.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(5_000_000);
  });
});

describe.each(Object.entries(BASES))('models/%s', (name, { markers, texts }) => {
  const config = readJson(name, 'config.json') as Record<string, number | boolean | string>;
  const tokenizerJson = readJson(name, 'tokenizer.json') as TokenizerJson;
  const tokenizer = tokenizerOf(name);
  const encode = (text: string) => encoded(tokenizer, text);
  const decode = (ids: number[]) => tokenizer.decode(ids, { skip_special_tokens: false, clean_up_tokenization_spaces: false });

  it('is a Qwen3 of about a million float32 parameters with the head size that a vLLM on a CPU takes', () => {
    expect(config).toMatchObject({ model_type: 'qwen3', head_dim: 32, tie_word_embeddings: true, attention_bias: false, dtype: 'float32' });
    const { parameters, types } = readSafetensors(path.join(folderOf(name), 'model.safetensors'));
    expect(types).toEqual(new Set(['F32']));
    expect(parameters).toBeGreaterThan(800_000);
    expect(parameters).toBeLessThan(1_250_000);
  });

  it('has a token for every row of its embedding', () => {
    const ids = [...Object.values(tokenizerJson.model.vocab), ...tokenizerJson.added_tokens.map((token) => token.id)];
    expect(new Set(ids).size).toBe(config['vocab_size']);
    expect(Math.max(...ids)).toBe(Number(config['vocab_size']) - 1);
  });

  it('encodes each marker as one ordinary token and keeps three control tokens', () => {
    for (const marker of markers) expect(encode(marker)).toHaveLength(1);
    const special = (wanted: boolean) => tokenizerJson.added_tokens.filter((token) => token.special === wanted).map((token) => token.content);
    expect(special(false).toSorted()).toEqual(markers.toSorted());
    expect(special(true)).toEqual(CONTROL);
    expect(encode('<|im_end|>')).toEqual([config['eos_token_id']]);
  });

  it('gives back every text of the environment and every text at all {decode(encode(text)) = text}', () => {
    const others = ['héllo <search>漢字🙂\n\n x</answer>  \t', 'a\r\n  b<think>', " it's 1234 ÀÉ ", 'x}<|begin_search_query|> \\boxed{{'];
    for (const text of [...texts, ...others]) expect(decode(encode(text))).toBe(text);
    fc.assert(fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }), (text) => decode(encode(text)) === text));
  });
});

describe.each(['nano-base', 'nano-o1'])('models/%s', (name) => {
  it('encodes every name of the fact world as one token after a space', () => {
    const tokenizer = tokenizerOf(name);
    const corpus = readFileSync(path.join(import.meta.dirname, '../../datasets/fact-world/corpus.jsonl'), 'utf8')
      .trimEnd()
      .split('\n');
    const names = corpus.flatMap((line) => /of (\w+) is (\w+)\./.exec((JSON.parse(line) as { contents: string }).contents)!.slice(1));
    expect(names).toHaveLength(1920);
    expect(names.filter((word) => encoded(tokenizer, ` ${word}`).length !== 1)).toEqual([]);
  });
});

describe('models/nano-coder', () => {
  it('keeps the digits of values apart, and takes a statement about slices as one token', () => {
    const tokenizer = tokenizerOf('nano-coder');
    expect(encoded(tokenizer, "'31415'")).toHaveLength(7);
    expect(encoded(tokenizer, '39')).toHaveLength(2);
    for (const statement of ['a=a[::-1];', 'a=a[1:];', 'a=a[:-1];', 'a=a[1:]+a[:1];']) expect(encoded(tokenizer, statement)).toHaveLength(1);
  });

  it('has a chat template of two tokens: one before the prompt and one after it', async () => {
    const model = await openTokenizer(folderOf('nano-coder'));
    const rendered = await new LocalTokenizer('nano-coder', model).render([{ role: 'user', content: 'propose o' }]);
    expect(model.decode(rendered.ids, { skipSpecialTokens: false })).toBe('<|im_start|>propose o\n');
    expect(rendered.ids).toHaveLength(5);
  });
});

describe('models/nano-pages', () => {
  it('encodes every name, and every box with its line break, piece by piece as one token', () => {
    const tokenizer = tokenizerOf('nano-pages');
    const pages = readFileSync(path.join(import.meta.dirname, '../../packages/vf-search-models/datasets/page-world/pages.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { words: [string, ...number[]][] });
    const words = new Set(pages.flatMap((page) => page.words.map(([text]) => text)).filter((text) => /^\p{L}/u.test(text)));
    expect(words.size).toBe(280);
    expect([...words].filter((word) => encoded(tokenizer, ` ${word}`).length !== 1)).toEqual([]);
    const boxes = new Set(
      pages.flatMap((page) =>
        page.words.map(
          ([, ...box]) =>
            `\n[${box
              .slice(0, 4)
              .map((side) => side / 4)
              .join(', ')}]`,
        ),
      ),
    );
    expect([...boxes].filter((box) => encoded(tokenizer, box).length !== 4 || encoded(tokenizer, box.trim()).length !== 4)).toEqual([]);
  });

  it("has ChatML as its template: an episode's prompt of 19 tokens", async () => {
    const model = await openTokenizer(folderOf('nano-pages'));
    const [system, user] = PAGE_PROMPT as [string, string];
    const rendered = await new LocalTokenizer('nano-pages', model).render([
      { role: 'system', content: system },
      { role: 'user', content: user },
    ]);
    expect(model.decode(rendered.ids, { skipSpecialTokens: false })).toBe(
      `<|im_start|>system\n${system}<|im_end|>\n<|im_start|>user\n${user}<|im_end|>\n<|im_start|>assistant\n`,
    );
    expect(rendered.ids).toHaveLength(19);
  });
});

function tokenizerOf(name: string): Tokenizer {
  return new Tokenizer(readJson(name, 'tokenizer.json'), readJson(name, 'tokenizer_config.json'));
}

function encoded(tokenizer: Tokenizer, text: string): number[] {
  return tokenizer.encode(text, { add_special_tokens: false }).ids;
}

function readSafetensors(file: string): { parameters: number; types: Set<string> } {
  const content = readFileSync(file);
  const header = content.subarray(8, 8 + Number(content.readBigUInt64LE(0))).toString();
  const { __metadata__: _, ...tensors } = JSON.parse(header) as Record<string, { dtype: string; shape: number[] }>;
  const sizes = Object.values(tensors).map(({ shape }) => shape.reduce((product, size) => product * size, 1));
  return { parameters: sizes.reduce((sum, size) => sum + size, 0), types: new Set(Object.values(tensors).map(({ dtype }) => dtype)) };
}

/** The smaller servers: retriever, evaluation, corpus, and templates of prompts. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { PromptTemplate } from '../../../src/pipelines/prompt-template.ts';
import { chunkText } from '../../../src/pipelines/servers/chunk-text.ts';
import { corpusServer } from '../../../src/pipelines/servers/corpus-server.ts';
import { customServer } from '../../../src/pipelines/servers/custom-server.ts';
import { evaluationServer } from '../../../src/pipelines/servers/evaluation-server.ts';
import { retrieverServer } from '../../../src/pipelines/servers/retriever-server.ts';
import type { SearchService, ServiceOpeners } from '../../../src/pipelines/service-openers.ts';
import { callContext } from './call-context.ts';

const folder = mkdtempSync(join(tmpdir(), 'servers-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('retrieverServer', () => {
  const opened: SearchService[] = [];
  const asked: unknown[] = [];
  const openers: ServiceOpeners = {
    chat: () => Promise.reject(new Error('Nothing chats here')),
    search: async (service) => {
      opened.push(service);
      return {
        name: 'words',
        search: async (queries, { topk }) => (asked.push([queries, topk]), queries.map((query) => [{ contents: `about ${query}` }])),
        close: async () => {},
      };
    },
  };

  it('puts the instruction before the query for a server, not for BM25, and opens each source once', async () => {
    const { tools, close } = retrieverServer('2.0', openers);
    const args = { query_list: ['q'], retriever_url: 'localhost:8080', top_k: 2, query_instruction: 'Query: ', corpus_path: 'nq-mini' };
    expect(await tools['retriever_deploy_search']!.run(args, callContext())).toEqual({ ret_psg: [['about Query: q']] });
    expect(await tools['retriever_search']!.run(args, callContext())).toEqual({ ret_psg: [['about q']] });
    await tools['retriever_search']!.run(args, callContext());
    await tools['retriever_websearch']!.run(args, callContext());
    await close?.();
    expect(opened).toEqual([{ url: 'http://localhost:8080' }, { corpus: 'nq-mini' }, { web: true }]);
    expect(asked[0]).toEqual([['Query: q'], 2]);
  });

  it("opens 3.0's corpus by BM25 alone", async () => {
    const { check } = retrieverServer('3.0', openers).tools['retriever_init']!;
    await expect(check!({ backend: 'bm25' }, callContext())).resolves.toBeUndefined();
    await expect(check!({ backend: 'infinity' }, callContext())).rejects.toThrow(/^retriever\.backend is "infinity", but only bm25 is supported/);
  });
});

describe('evaluationServer', () => {
  const { evaluate } = evaluationServer().tools;

  it('scores what was answered, and has null for a question that failed', async () => {
    const args = {
      pred_ls: ['Paris', null, 'Rome'],
      gt_ls: [['Paris'], ['x'], 'Paris'],
      metrics: ['EM', 'acc'],
      save_path: join(folder, 'out/eval.json'),
    };
    const { eval_res } = await evaluate!.run(args, callContext());
    expect(eval_res).toEqual({ em: [1, null, 0], acc: [1, null, 0], avg_em: 0.5, avg_acc: 0.5, failed: 1 });
    const [file, ...others] = readdirSync(join(folder, 'out'));
    expect(file).toMatch(/^eval_\d{8}_\d{6}\.json$/);
    expect(others).toEqual([]);
    expect(JSON.parse(readFileSync(join(folder, 'out', file!), 'utf8'))).toEqual(eval_res);
  });
});

describe('corpusServer', () => {
  it('cuts text into passages that vf-index reads', async () => {
    const { parse_documents: parse, chunk_documents: chunk } = corpusServer('2.0').tools;
    writeFileSync(join(folder, 'text.md'), '# Title\n\nOne two three. Four five. Six seven eight nine ten.\n');
    const { raw_data } = await parse!.run({ file_path: join(folder, 'text.md') }, callContext());
    const output_path = join(folder, 'made/chunks.jsonl');
    const reply = await chunk!.run({ chunk_strategy: 'sentence', chunk_size: 5, raw_data, output_path }, callContext());
    expect(reply).toEqual({ status: `3 passages in ${output_path}` });
    const rows = readFileSync(output_path, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
    expect(rows).toEqual([
      { id: '0', contents: '# Title One two three.' },
      { id: '1', contents: 'Four five.' },
      { id: '2', contents: 'Six seven eight nine ten.' },
    ]);
  });

  it("goes through 3.0's files, titles too", async () => {
    const { build_text_corpus: build, chunk_documents: chunk } = corpusServer('3.0').tools;
    writeFileSync(join(folder, 'Rome.txt'), 'One two. Three.');
    await build!.run({ parse_file_path: join(folder, 'Rome.txt'), text_corpus_save_path: join(folder, 'a.jsonl') }, callContext());
    writeFileSync(join(folder, 'b.jsonl'), '{"title": "Rome", "text": "One two. Three."}\n');
    await chunk!.run(
      { raw_chunk_path: join(folder, 'b.jsonl'), chunk_path: join(folder, 'c.jsonl'), chunk_backend: 'word', chunk_size: 2, use_title: true },
      callContext(),
    );
    expect(readFileSync(join(folder, 'c.jsonl'), 'utf8')).toBe(
      '{"id":"0","contents":"\\"Rome\\"\\nOne two."}\n{"id":"1","contents":"\\"Rome\\"\\nThree."}\n',
    );
    expect(readFileSync(join(folder, 'a.jsonl'), 'utf8')).toContain('One two. Three.');
    await expect(build!.check!({ parse_file_path: 'a.pdf' }, callContext())).rejects.toThrow(
      'The document a.pdf must be one of .txt, .md, .jsonl, .json, .csv, .tsv, .parquet; convert it first',
    );
  });

  it('keeps every word and the limit, whatever the sentences', () => {
    const text = 'a b c d e f g. h! i? j k l m n o p q r s t u v w x y z';
    for (const strategy of ['word', 'sentence'] as const) {
      const chunks = chunkText(text, { strategy, words: 4 });
      expect(chunks.join(' ')).toBe(text);
      expect(Math.max(...chunks.map((chunk) => chunk.split(' ').length))).toBeLessThanOrEqual(4);
    }
  });
});

describe('PromptTemplate', () => {
  it('keeps line breaks around blocks, reads CRLF as LF, and drops one line break at the end', () => {
    expect(new PromptTemplate('{% if a %}\r\nx {{ a }}\r\n{% endif %}\r\n\r\n', 't').render({ a: '<b>&' })).toBe('\nx <b>&\n\n');
    expect(new PromptTemplate('{% for i in range(1, 7, 3) %}{{ i }},{% endfor %}{{ missing }}', 't').render({})).toBe('1,4,');
  });

  it('prints the values of Python as jinja2 prints them', () => {
    const text = '{{ [true, none, 1.0] }} {{ "%d" % 3 }} {{ 2.5|round }} {{ "😀"|length }}{% raw %} {{ x }}{% endraw %}';
    expect(new PromptTemplate(text, 't').render({})).toBe('[True, None, 1.0] 3 2.0 1 {{ x }}');
    expect(() => new PromptTemplate('{{ strftime_now("%Y") }}', 't').render({})).toThrow(/cannot be filled in/);
  });

  it('runs no code', () => {
    for (const text of ["{{ [].constructor.constructor('return process')() }}", "{{ ''.__class__.__mro__ }}", '{{ range.constructor }}'])
      expect(() => new PromptTemplate(text, 't').render({})).toSatisfy((play) => {
        try {
          return !(play as () => string)().includes('process');
        } catch {
          return true;
        }
      });
    expect(() => new PromptTemplate('{% for i in range(9999999) %}x{% endfor %}', 't').render({})).toThrow(
      /^The template t cannot be filled in: Range too big/,
    );
  });

  it('ends loops within loops', () => {
    const nested = (count: number) => `{% for i in range(${count}) %}{% for j in range(${count}) %}{% endfor %}{% endfor %}`;
    expect(() => new PromptTemplate(nested(100_000), 't').render({})).toThrow(
      /the template takes more than [\d,]+ steps; shorten its loops and texts/,
    );
    const doubled = Array.from({ length: 60 }, () => '{% set l = l + l %}').join('');
    expect(() => new PromptTemplate(doubled, 't').render({ l: ['x'] })).toThrow(/takes more than [\d,]+ steps/);
    expect(new PromptTemplate(nested(100), 't').render({})).toBe('');
  });

  it('ends loops over long lists and texts', { tags: 'long' }, () => {
    const list = Array.from({ length: 4000 }, () => 'x');
    expect(() => new PromptTemplate('{% for a in l %}{% for b in l %}{{ b }}{% endfor %}{% endfor %}', 't').render({ l: list })).toThrow(
      /takes more than [\d,]+ steps/,
    );
    expect(() => new PromptTemplate('{% for i in range(9000) %}{{ text }}{% endfor %}', 't').render({ text: 'x'.repeat(100_000) })).toThrow(
      /takes more than [\d,]+ steps/,
    );
  });
});

describe('customServer', () => {
  it('reads 10 MB of open markers, and text without any, in linear time', async () => {
    const texts = [
      '<|begin_search_query|>'.repeat(400_000),
      '<search>'.repeat(1_000_000),
      'x'.repeat(10_000_000),
      'so the answer is'.repeat(500_000),
      '\\boxed{'.repeat(300_000),
      `${' '.repeat(5_000_000)}\n`.repeat(2),
    ];
    for (const [name, tool] of Object.entries({ ...customServer('2.0').tools, o1: customServer('3.0').tools['search_o1_query_extract']! })) {
      if (Object.keys(tool.arguments!).join() !== 'ans_ls') continue;
      const reply = await tool.run({ ans_ls: texts }, callContext());
      expect([name, Object.values(reply).map((list) => (list as unknown[]).length)]).toEqual([name, [texts.length]]);
    }
  });
});

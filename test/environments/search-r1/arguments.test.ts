import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ConfigError } from 'vf-search';
import { describe, expect, it } from 'vitest';
import { parseArguments } from '../../../environments/search-r1/arguments.ts';

describe('parseArguments', () => {
  it('has the defaults of the README', () => {
    const { named, ...parsed } = parseArguments({});
    expect(named).toMatchObject({ corpus: 'nq-mini', max_turns: 2, max_start_length: 2048, score: 1 });
    expect(parsed).toEqual({
      dataset: 'nq-mini',
      pace: {},
      corpus: 'nq-mini',
      retrieverUrl: null,
      engine: null,
      topk: 3,
      maxTurns: 2,
      dataSplit: null,
      dataLimit: null,
      limits: { responseTokens: 500, observationTokens: 500, contextTokens: 4096 },
      maxStartLength: 2048,
      weights: { structureFormatScore: 0, finalFormatScore: 0, retrievalScore: 0, score: 1 },
      overlong: 'stop',
      scorer: 'upstream',
      metrics: [],
      stopAtAnswer: false,
      tokens: { endOfTurn: 'dropped', bos: 'model' },
    });
  });

  it('knows the arguments of the README’s table, and no others', () => {
    const readme = readFileSync(path.join(import.meta.dirname, '../../../environments/search-r1/README.md'), 'utf8');
    const table = readme.slice(readme.indexOf('## Arguments'), readme.indexOf('## Reward and metrics'));
    const rows = table.slice(0, table.search(/\| preset +\| sets/)).matchAll(/^\| (`[^|]+`) +\|/gm);
    const documented = [...rows].flatMap(([, cell]) => cell!.trim().split(', ')).map((name) => name.replaceAll('`', ''));
    const failure = (() => {
      try {
        parseArguments({ '?': 1 });
      } catch (error) {
        return (error as Error).message;
      }
      return '';
    })();
    expect(documented.toSorted()).toEqual(
      failure
        .slice(failure.indexOf('Its arguments are ') + 'Its arguments are '.length, -1)
        .split(', ')
        .toSorted(),
    );
  });

  it('reads snake_case, camelCase and the alias alike', () => {
    const snake = parseArguments({ max_turns: 4, retriever_topk: 5, structure_format_score: 0.2, data_limit: 7, max_obs_length: 9 });
    const camel = parseArguments({ maxTurns: 4, retrieverTopk: 5, structureFormatScore: 0.2, dataLimit: 7, maxObsLength: 9 });
    expect(camel).toEqual(snake);
    expect(snake.named).not.toHaveProperty('maxTurns');
    expect(snake).toMatchObject({ maxTurns: 4, topk: 5, dataLimit: 7, limits: { observationTokens: 9 } });
  });

  it('lets a preset set values, and lets arguments next to it win', () => {
    expect(parseArguments({ preset: 'paper' }).maxTurns).toBe(4);
    expect(parseArguments({ preset: 'paper', max_turns: 1 }).maxTurns).toBe(1);
    expect(parseArguments({ preset: 'v0.3' })).toMatchObject({
      maxTurns: 2,
      weights: { structureFormatScore: 0.2, finalFormatScore: 0.1, retrievalScore: 0, score: 1 },
    });
  });

  it('chooses the corpus by the data set, unless passages come from elsewhere', () => {
    expect(parseArguments({ dataset: 'fact-world' }).corpus).toBe('fact-world');
    expect(parseArguments({ dataset: 'hotpotqa' }).corpus).toBe('nq-mini');
    expect(parseArguments({ dataset: 'fact-world', corpus: 'my.jsonl' }).corpus).toBe('my.jsonl');
    expect(parseArguments({ retriever_url: 'http://127.0.0.1:8000/retrieve' })).toMatchObject({ corpus: null, named: { corpus: null } });
    expect(parseArguments({ engine: 'serper' })).toMatchObject({ corpus: null, retrieverUrl: null, engine: 'serper' });
  });

  it('treats null as left out', () => {
    expect(parseArguments({ data_limit: null, corpus: null })).toEqual(parseArguments({}));
  });

  it('names the known arguments when one is unknown', () => {
    expect(() => parseArguments({ max_turn: 3 })).toThrow(ConfigError);
    expect(() => parseArguments({ max_turn: 3 })).toThrow(
      /no argument "max_turn" \(did you mean max_turns\?\)\. Its arguments are .*max_turns.*retriever_topk/,
    );
    expect(() => parseArguments({ toString: 1 })).toThrow(/Its arguments are/);
    expect(() => parseArguments(JSON.parse('{"__proto__": 1}') as Record<string, unknown>)).toThrow(/Its arguments are/);
  });

  it.each([
    [{ max_turns: -1 }, 'an integer of at least 0, got -1'],
    [{ max_turns: '2' }, 'an integer of at least 0, got "2"'],
    [{ topk: 0 }, 'an integer of at least 1, got 0'],
    [{ data_limit: 1.5 }, 'an integer of at least 1'],
    [{ score: Infinity }, 'a finite number'],
    [{ preset: 'v3' }, '"default" or "paper" or "v0.3", got "v3"'],
    [{ overlong: 'cut' }, '"stop" or "upstream"'],
    [{ scorer: '' }, '"upstream" or "completion"'],
    [{ stop_at_answer: 1 }, 'true or false, got 1'],
    [{ dataset: '' }, 'a non-empty string'],
    [{ metrics: 'f1' }, 'a list of names out of acc, em'],
    [{ metrics: ['f1', 'bleu'] }, 'got ["f1","bleu"]'],
    [{ metrics: ['f1', 'f1'] }, 'each once'],
  ])('refuses %j', (args, message) => {
    expect(() => parseArguments(args)).toThrow(message);
  });

  it('refuses two sources of passages and two values for one argument', () => {
    expect(() => parseArguments({ corpus: 'nq-mini', retriever_url: 'http://x' })).toThrow(/corpus and retriever_url are both set/);
    expect(() => parseArguments({ topk: 3, retriever_topk: 5 })).toThrow(/topk has two values, 3 and 5/);
  });
});

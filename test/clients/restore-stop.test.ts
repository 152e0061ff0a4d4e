import { describe, expect, it } from 'vitest';
import { type ReportedStop, restoreStop } from '../../src/clients/restore-stop.ts';

const SILENT: ReportedStop = { named: undefined, isCut: false };
const R1 = ['</search>', '</answer>'];
const O1 = ['<|end_search_query|>'];

describe('restoreStop', () => {
  it('puts back the stop string that the server names', () => {
    const reported = { named: '<|end_search_query|>', isCut: false };
    expect(restoreStop('capital of France', reported, O1)).toMatchObject({ text: 'capital of France<|end_search_query|>', isGuess: false });
  });

  it.each([
    ['<|end_search_query|>', '<|begin_search_query|>capital of France'],
    ['<|search_end|>', '<|search_start|>q'],
    ['</search>', '<search> q'],
    ['</search>', '<search engine="web"> q'],
    ['[/SEARCH]', '[SEARCH] q'],
    ['[END_SEARCH]', '[BEGIN_SEARCH] q'],
    ['<｜tool▁calls▁end｜>', '<｜tool▁calls▁begin｜>f'],
    [' </search>\n', '<search> q'],
  ])('puts back %s behind its opening tag, as a guess', (end, text) => {
    const thought = `<think> I could ${text}, or not. </think>\n${text}`;
    expect(restoreStop(thought, SILENT, [end])).toEqual({ text: thought + end, stopReason: end, isGuess: true, wasIgnored: false });
  });

  it('completes a stop string of which the first characters are there', () => {
    expect(restoreStop('<search> q </sear', SILENT, R1)).toMatchObject({ text: '<search> q </search>', isGuess: true });
    expect(restoreStop('<search> 1 <', SILENT, R1)).toMatchObject({ text: '<search> 1 <</search>', isGuess: true });
  });

  it.each([
    ['a tag in thoughts', '<think> I could use <search> to look it up. </think>\nParis', R1],
    ['a tag in thoughts that the template opened', 'I could use <search> to look. </think>\nParis', R1],
    ['a tag in the thoughts of Magistral', '[THINK] <search> [/THINK] Paris', R1],
    ['a tag before an answer', 'I could <search>, but <answer> Paris </answer>', ['</search>']],
    ['a query before a boxed answer', 'I could <|begin_search_query|> but \\boxed{Paris}', O1],
    ['no tag', 'Paris', O1],
  ])('puts nothing back for %s, and is sure of it', (_, text, stop) => {
    expect(restoreStop(text, SILENT, stop)).toEqual({ text, stopReason: null, isGuess: false, wasIgnored: false });
  });

  it.each([
    ['where the server says that none ended it', { named: null, isCut: false }],
    ['where a token ended it', { named: 151_645, isCut: false }],
    ['where the limit cut it off', { named: undefined, isCut: true }],
  ])('puts nothing back %s', (_, reported) => {
    expect(restoreStop('<search> q', reported, R1)).toMatchObject({ text: '<search> q', isGuess: false });
  });

  it('puts back the end of a query behind a box, which the prompt may have named', () => {
    const text = 'I give \\boxed{YOUR_ANSWER}.\n<|begin_search_query|>capital of France';
    expect(restoreStop(text, SILENT, O1)).toMatchObject({ text: `${text}<|end_search_query|>`, isGuess: true });
  });

  it('calls it a guess where nothing can tell: a string without a tag, a tag in thoughts without an end, or behind an answer', () => {
    const text = '<answer> Paris </answer> or <search> more';
    expect(restoreStop(text, SILENT, ['</search>'])).toMatchObject({ text, isGuess: true });
    expect(restoreStop('Action: search[x]', SILENT, ['Observation:'])).toMatchObject({ text: 'Action: search[x]', isGuess: true });
    expect(restoreStop('<think> <search> q', SILENT, R1)).toMatchObject({ text: '<think> <search> q', stopReason: null, isGuess: true });
  });

  it('cuts after the first stop string, and says whether the server went on', () => {
    const kept = { text: '<search> q </search>', stopReason: '</search>', isGuess: false };
    expect(restoreStop('<search> q </search>', SILENT, R1)).toEqual({ ...kept, wasIgnored: false });
    expect(restoreStop('<search> q </search>\n<information> Lyon', { named: null, isCut: true }, R1)).toEqual({ ...kept, wasIgnored: true });
    expect(restoreStop('a <|end_search_query|>\n', SILENT, O1).wasIgnored).toBe(false);
  });
});

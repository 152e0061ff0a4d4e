import * as fc from 'fast-check';
import { criticScores, parseCritique } from 'vf-search/environments/self-play-code';
import { describe, expect, it } from 'vitest';
import { critiqueOptions } from '../../../environments/self-play-code/critique.ts';

const ok = (grade: number, rationale = '') => ({ status: 'ok', grade, rationale });
const malformed = { status: 'malformed' };

describe('parseCritique', () => {
  it('reads JSON alone, in a fence, within prose and within another object', () => {
    const object = '{"rationale": "two ways", "grade": 0.75}';
    for (const reply of [
      object,
      `\`\`\`json\n${object}\n\`\`\``,
      `Sure! ${object} Anything else {}?`,
      `{"evaluation": ${object}}`,
      `{not json} [${object}]`,
    ])
      expect(parseCritique(reply)).toEqual(ok(0.75, 'two ways'));
  });

  it.each([
    '',
    'grade: 0.7',
    '{"rationale": "r"}',
    '{"grade": NaN}',
    '{"grade": 1.5}',
    '{"grade": -0.1}',
    '{"grade": "0.5"}',
    '{"grade": true}',
    '{"grade": 1e999}',
    '{"grade": 0.5',
    '[0.5]',
  ])('finds no grade in %j', (reply) => {
    expect(parseCritique(reply)).toEqual(malformed);
  });

  it('lets the first graded object decide, and the last of repeated keys', () => {
    expect(parseCritique('{"grade": NaN} {"grade": 0.5}')).toEqual(malformed);
    expect(parseCritique('{"grade": null, "grade": 0.5}')).toEqual(ok(0.5));
  });

  it('reads no grade in thoughts, whether the reply or the chat template opened them', () => {
    const example = 'The form is {"rationale": "two sentences", "grade": 0.75}. I would say 0.2.';
    expect(parseCritique(`<think>\n${example}\n</think>\n\n{"rationale": "r", "grade": 0.2}`)).toEqual(ok(0.2, 'r'));
    expect(parseCritique(`${example}</think>{"grade": 0.2}`)).toEqual(ok(0.2));
    expect(parseCritique(`<think>${example}`)).toEqual(malformed);
    expect(parseCritique(`<think>${example}</think>`)).toEqual(malformed);
    expect(parseCritique('{"rationale": "no <think> tag, </think> closes none", "grade": 0.3}')).toEqual(
      ok(0.3, 'no <think> tag, </think> closes none'),
    );
    expect(parseCritique('It has no </think> tag: {"grade": 0.3}')).toEqual(ok(0.3));
  });

  it('divides by the scale', () => {
    expect(parseCritique('{"grade": 4}', { gradeScale: 5 })).toEqual(ok(0.8));
    expect(parseCritique('{"grade": 6}', { gradeScale: 5 })).toEqual(malformed);
  });

  it('agrees with JSON.parse on every object', () => {
    fc.assert(
      fc.property(fc.json(), fc.double({ min: 0, max: 1, noNaN: true }), (json, grade) => {
        fc.pre(!json.includes('"grade"'));
        expect(parseCritique(`text ${JSON.stringify({ before: JSON.parse(json) as unknown, grade, rationale: 'r' })}`)).toEqual(ok(grade, 'r'));
      }),
    );
  });

  it('reads hostile texts in linear time and never throws', () => {
    const size = 200_000;
    // A quadratic reader would take hours.
    for (const text of [
      '{'.repeat(size),
      '{"a":'.repeat(size),
      '{"a":['.repeat(size),
      '['.repeat(size),
      `{"${'\\'.repeat(size)}`,
      '{"a":1,'.repeat(size),
      '{"a":{}, "b":'.repeat(size),
    ])
      expect(parseCritique(text)).toEqual(malformed);
    fc.assert(
      fc.property(fc.array(fc.constantFrom('{', '}', '[', ']', '"', ':', ',', 'grade', '0.5', '\\', ' ', 'NaN', '-Infinity', 'null')), (parts) => {
        expect(parseCritique(parts.join('')).status).toMatch(/ok|malformed/);
      }),
    );
  });
});

describe('parseCritique with dimensions', () => {
  const DIMENSIONS = ['novelty', 'depth', 'diversity', 'persistence', 'rigor'];
  const evaluation = (changes: object = {}) => {
    const scores = { novelty: 0, depth: 0.25, diversity: 0.5, persistence: 0.75, rigor: 1 };
    return JSON.stringify({ ...scores, overall_grade: 0.6, rationale: 'r', ...changes });
  };
  const read = (reply: string, needsScores = false) => parseCritique(reply, { dimensions: DIMENSIONS, needsScores });

  it("reads the specification's CreativityEvaluation: five scores, an overall grade and a rationale", () => {
    const scores = { novelty: 0, depth: 0.25, diversity: 0.5, persistence: 0.75, rigor: 1 };
    expect(read(evaluation())).toEqual({ ...ok(0.6, 'r'), scores });
    expect(read(`Sure: ${evaluation({ grade: 0.5 })}`)).toEqual({ ...ok(0.5, 'r'), scores });
    expect(parseCritique(evaluation())).toEqual(ok(0.6, 'r'));
    const inFives = evaluation({ overall_grade: 3, rigor: 5 });
    expect(parseCritique(inFives, { dimensions: DIMENSIONS, gradeScale: 5 })).toMatchObject({ grade: 0.6, scores: { rigor: 1, diversity: 0.1 } });
  });

  it.each([
    { rigor: 1.01 },
    { depth: -0.1 },
    { novelty: '0.5' },
    { novelty: true },
    { diversity: null },
    { overall_grade: 2 },
    { overall_grade: undefined },
    { rigor: undefined },
  ])('is malformed with %j', (changes) => {
    expect(read(evaluation(changes))).toEqual(malformed);
  });

  it('needs scores only where they were asked for', () => {
    expect(read('{"grade": 0.5}')).toEqual(ok(0.5));
    expect(read('{"grade": 0.5}', true)).toEqual(malformed);
    expect(critiqueOptions({ grading: 'own', dimensions: DIMENSIONS })).toEqual({});
    expect(critiqueOptions({ grading: 'document', dimensions: DIMENSIONS })).toEqual({ dimensions: DIMENSIONS, needsScores: false });
  });
});

describe('criticScores', () => {
  it('pays a critic the median of the others, and its agreement with the verdict', () => {
    expect(criticScores([0.9, 0.2, 0.4], true)).toEqual({ creativity: [expect.closeTo(0.3), 0.65, 0.55], agreement: [1, 0, 0] });
    expect(criticScores([0.9, 0.2, 0.4], false).agreement).toEqual([0, 1, 1]);
  });

  it('gives a malformed critique nothing, and a lone critic no creativity', () => {
    expect(criticScores([null, 0.7], true)).toEqual({ creativity: [null, null], agreement: [null, 1] });
  });

  it('never lets a critic change its own creativity', () => {
    const grade = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(fc.array(grade, { minLength: 2, maxLength: 6 }), grade, (grades, other) => {
        const changed = criticScores([other, ...grades.slice(1)], true);
        expect(changed.creativity[0]).toBe(criticScores(grades, true).creativity[0]);
      }),
    );
  });

  it('has the other rules as options', () => {
    expect(criticScores([1, 0.5], true, { creativity: 'self' }).creativity).toEqual([1, 0.5]);
    expect(criticScores([0.5, 0.6, 1], false, { agreement: 'consensus' }).agreement).toEqual([1, 1, 0]);
  });

  it('refuses a grade outside of 0 and 1', () => {
    expect(() => criticScores([2], true)).toThrow(/from 0 to 1/);
  });
});

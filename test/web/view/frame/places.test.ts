import { describe, expect, it } from 'vitest';
import { crumbsOf, titleOf } from '../../../../web/view/frame/places.ts';
import { parseRoute } from '../../../../web/view/route/route.ts';

const crumbs = (hash: string, line: Parameters<typeof crumbsOf>[1]) => crumbsOf(parseRoute(hash), line).map(({ text, title }) => [text, title]);

describe('titleOf', () => {
  it('names the innermost place first, and the run of a rollout', () => {
    const title = (hash: string) => titleOf(crumbsOf(parseRoute(hash), { name: 'First try', differs: 'lr 1e-4' }));
    expect(title('#/rollout?run=train/a&group=g&index=0')).toBe('g / 0 · First try (lr 1e-4) · vf-view');
    expect(title('#/curves?run=train/a')).toBe('First try (lr 1e-4) · vf-view');
    expect(title('#/runs')).toBe('vf-view');
  });
});

describe('crumbsOf', () => {
  it('calls a run by its name, with the settings that tell it from others of that name, and keeps its folder for the pointer', () => {
    const named = { name: 'First try', differs: '' };
    expect(crumbs('#/curves?run=train/a', named)).toEqual([
      ['vf-view', undefined],
      ['First try', 'train/a'],
    ]);
    expect(crumbs('#/curves?run=train/a', { ...named, differs: 'lr 1e-4' })[1]).toEqual(['First try (lr 1e-4)', 'train/a']);
    expect(crumbs('#/rollout?run=train/a&group=g&index=0', named).map(([text]) => text)).toEqual(['vf-view', 'First try', 'g / 0']);
  });

  it('calls a run without a name by its folder', () => {
    expect(crumbs('#/run?run=train/a', { name: null, differs: 'lr 1e-4' })[1]).toEqual(['train/a', 'train/a']);
    expect(crumbs('#/run?run=.', null)[1]![0]).toBe('This run');
  });
});

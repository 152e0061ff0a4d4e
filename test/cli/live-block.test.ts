import { describe, expect, it } from 'vitest';
import { LiveBlock } from '../../src/cli/live-block.ts';
import { TerminalScreen } from './terminal-screen.ts';

const open = (columns = 60) => {
  const screen = new TerminalScreen(columns);
  const lines: string[] = ['first', 'second'];
  const widths: number[] = [];
  const block = new LiveBlock({
    stream: screen.asStream(),
    // Longer than any test: redraws are asked for.
    everyMs: 3_600_000,
    draw: (width) => {
      widths.push(width);
      return [...lines];
    },
  });
  return { screen, lines, widths, block };
};

describe('LiveBlock', () => {
  it('draws over what it drew, shorter and fewer lines too', () => {
    const { screen, lines, block } = open();
    block.start();
    expect(screen.shown()).toEqual(['first', 'second']);
    lines.splice(0, 2, 'a');
    block.redraw();
    expect(screen.shown()).toEqual(['a']);
    lines.push('bb', 'ccc');
    block.redraw();
    expect(screen.shown()).toEqual(['a', 'bb', 'ccc']);
    block.close();
  });

  it('keeps notes above the block and takes the block away at the end', () => {
    const { screen, block } = open();
    block.start();
    block.note('stays');
    expect(screen.shown()).toEqual(['stays', 'first', 'second']);
    block.note('too');
    block.close();
    block.close();
    expect(screen.shown()).toEqual(['stays', 'too']);
  });

  it('writes once for a frame, and nothing where nothing changed', () => {
    const { screen, lines, block } = open();
    block.start();
    block.redraw();
    expect(screen.writes).toBe(1);
    lines[0] = 'changed';
    block.redraw();
    expect(screen.writes).toBe(2);
    block.close();
  });

  it('leaves the last column free, whatever the width', () => {
    const { screen, widths, block } = open(72);
    block.start();
    screen.columns = 300;
    block.redraw();
    screen.columns = 10;
    block.redraw();
    expect(widths).toEqual([71, 99, 39]);
    block.close();
  });

  it('goes up by the rows that its lines take in a terminal that became narrower', () => {
    const { screen, lines, block } = open(60);
    lines.splice(0, 2, 'x'.repeat(50), 'y');
    block.start();
    screen.columns = 20;
    lines.splice(0, 2, 'z');
    block.redraw();
    // 50 columns are three rows of 20, and one for the y.
    expect(screen.text).toContain('\u001b[4A\rz');
    block.close();
  });
});

/** Colours and sizes of all plots. The colours are those of Okabe and Ito ("Color Universal Design", 2008), distinguishable with every form of colour blindness. */

export const COLORS = {
  blue: '#0072b2',
  vermilion: '#d55e00',
  green: '#009e73',
  purple: '#cc79a7',
  orange: '#e69f00',
  sky: '#56b4e9',
  grey: '#8a8a8a',
  ink: '#222222',
  muted: '#5f5f5f',
  grid: '#e7e7e7',
  paper: '#ffffff',
} as const;

/** Colours of the runs in a figure, in this order. Vermilion is reserved for controls. */
export const RUN_COLORS = [COLORS.blue, COLORS.green, COLORS.purple, COLORS.orange, COLORS.sky] as const;

/** DejaVu Sans is bundled; a browser without it uses its own font. */
export const FONT_FAMILY = 'DejaVu Sans, Verdana, sans-serif';

export const FONT_SIZE = { title: 16, label: 12, tick: 11 } as const;

/** Width of a string in DejaVu Sans, in pixels; a generous estimate. */
export function textWidth(text: string, fontSize: number): number {
  return text.length * fontSize * 0.61;
}

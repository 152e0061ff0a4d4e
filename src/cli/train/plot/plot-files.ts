/** File names of a run's plots, in reading order. Separate from the drawing code, which is slow to load. */
export const PLOT_FILES = ['reward.svg', 'reward.png', 'overview.svg', 'overview.png'] as const;

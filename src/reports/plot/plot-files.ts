/** File names of a run's plots, in reading order; a run has the plots of the quantities that it measured. Separate from the drawing code, which is slow to load. */
export const PLOT_FILES = ['reward.svg', 'reward.png', 'loss.svg', 'loss.png', 'overview.svg', 'overview.png'] as const;

/** Names of the plots of a run, in the order in which they are to be looked at. Apart from what draws them, which takes time to load. */
export const PLOT_FILES = ['reward.svg', 'reward.png', 'overview.svg', 'overview.png'] as const;

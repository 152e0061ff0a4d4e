/** The questions and notes that `vf-init` writes. */

interface TemplateRow {
  readonly question: string;
  readonly golden_answers: readonly string[];
  readonly title: string;
  readonly note: string;
}

/** Number of rows at the end that the environment holds out for evaluation. */
export const HELD_OUT_ROWS = 4;

/** General knowledge in our own words. recipes/copy/words.py keeps these words out of the pre-training of nano-copy. */
export const ROWS: readonly TemplateRow[] = [
  {
    question: 'Which planet is closest to the Sun?',
    golden_answers: ['Mercury'],
    title: 'Solar System',
    note: 'Eight planets travel around the Sun. The planet closest to the Sun is Mercury.',
  },
  {
    question: 'What is the capital of Portugal?',
    golden_answers: ['Lisbon'],
    title: 'Portugal',
    note: 'The capital of Portugal is Lisbon, a city at the mouth of the river Tagus.',
  },
  {
    question: 'Which metal is liquid at room temperature?',
    golden_answers: ['Mercury', 'quicksilver'],
    title: 'Metals',
    note: 'Nearly all metals are solid in a warm room. The metal that is liquid at room temperature is Mercury.',
  },
  {
    question: 'Who painted the Mona Lisa?',
    golden_answers: ['Leonardo da Vinci', 'Leonardo'],
    title: 'Mona Lisa',
    note: 'The portrait hangs in the Louvre. The Mona Lisa was painted by Leonardo da Vinci.',
  },
  {
    question: 'What is the currency of Japan?',
    golden_answers: ['yen', 'the yen'],
    title: 'Japan',
    note: 'Japan lies on four large islands. The currency of Japan is the yen.',
  },
  {
    question: 'Who wrote Don Quixote?',
    golden_answers: ['Miguel de Cervantes', 'Cervantes'],
    title: 'Don Quixote',
    note: 'The knight of La Mancha fights windmills. Don Quixote was written by Miguel de Cervantes.',
  },
  {
    question: 'What is the tallest mountain of Africa?',
    golden_answers: ['Kilimanjaro', 'Mount Kilimanjaro'],
    title: 'Africa',
    note: 'The tallest mountain of Africa is Kilimanjaro, a volcano with snow at the top.',
  },
  {
    question: 'In which year did the Berlin Wall fall?',
    golden_answers: ['1989'],
    title: 'Berlin Wall',
    note: 'It parted the city for 28 years. The Berlin Wall fell in 1989.',
  },
  {
    question: 'What is the largest ocean of the Earth?',
    golden_answers: ['Pacific', 'the Pacific', 'Pacific Ocean', 'the Pacific Ocean'],
    title: 'Oceans',
    note: 'Water covers most of our planet. The largest ocean of the Earth is the Pacific.',
  },
  {
    question: 'Who composed The Magic Flute?',
    golden_answers: ['Mozart', 'Wolfgang Amadeus Mozart'],
    title: 'The Magic Flute',
    note: 'The Magic Flute was composed by Mozart, who conducted its first performance.',
  },
  {
    question: 'What is the capital of Canada?',
    golden_answers: ['Ottawa'],
    title: 'Canada',
    note: 'Canada has ten provinces. The capital of Canada is Ottawa.',
  },
  {
    question: 'What is the largest organ of the human body?',
    golden_answers: ['skin', 'the skin'],
    title: 'Organs',
    note: 'The largest organ of the human body is the skin, which keeps water in.',
  },
  {
    question: 'In which year did people first walk on the Moon?',
    golden_answers: ['1969'],
    title: 'Apollo 11',
    note: 'Apollo 11 carried three astronauts. People first walked on the Moon in 1969.',
  },
  {
    question: 'What is the longest river of South America?',
    golden_answers: ['Amazon', 'the Amazon'],
    title: 'South America',
    note: 'The longest river of South America is the Amazon. Rivers from the Andes feed the rainforest.',
  },
  {
    question: 'What is the capital of Kenya?',
    golden_answers: ['Nairobi'],
    title: 'Kenya',
    note: 'The capital of Kenya is Nairobi, where herds graze within sight of towers.',
  },
  {
    question: 'Which gas makes up most of the air?',
    golden_answers: ['nitrogen'],
    title: 'Air',
    note: 'The gas that makes up most of the air is nitrogen. We breathe a mixture.',
  },
];

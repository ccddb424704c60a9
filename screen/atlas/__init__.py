"""A study of our own: many short trainings of small decoders, and how predictions of stability compare with them.

`python -m screen.atlas run` trains, `score` compares, `page` writes docs/atlas.md. What decides nothing about training (`cell`, `outcome`, `split`,
`plan`, `records`, `score`, `page`) loads no torch.
"""

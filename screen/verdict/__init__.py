"""From the outcomes of rules to channels, conditions and a verdict, and the gate."""
